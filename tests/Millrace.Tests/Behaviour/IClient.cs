// What the bench needs to know of a client, whatever it speaks.

using Millrace.Tests.Simulation;

namespace Millrace.Tests.Behaviour;

internal interface IClient
{
    SimulatedSocket Socket { get; }

    /// <summary>What broke the specification in the bytes that came back, if anything did.</summary>
    string? Fault { get; }

    /// <summary>Reads up to <paramref name="max"/> bytes; answers how many there were.</summary>
    int Read(int max = int.MaxValue);
}
