// How a front end says that it makes an item of the end-to-end list impossible. Not a way to leave a test out: the item is
// overridden, and the override asserts what really happens behind that front end.
namespace Millrace.Interop;

/// <summary>Stands on an override of a test of <see cref="EndToEndList"/>, and in the table of docs/front-ends.md.</summary>
/// <param name="reason">One sentence: what the front end does instead, and what helps if anything does.</param>
[AttributeUsage(AttributeTargets.Method, Inherited = true)]
public sealed class DeviationAttribute(string reason) : Attribute
{
    public string Reason { get; } = reason;
}
