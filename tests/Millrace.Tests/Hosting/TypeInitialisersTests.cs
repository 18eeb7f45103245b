// Whose static fields are made at the start: everybody's, so that a request which finds no memory for them harms no later one.

namespace Millrace.Tests.Hosting;

public sealed class TypeInitialisersTests
{
    [Fact]
    public void A_plain_server_knows_all_types_that_have_static_fields_but_those_for_hosts() => Assert.Equal(
        typeof(MillraceServer).Assembly.GetTypes()
            .Where(static type => type.TypeInitializer is not null && !type.ContainsGenericParameters && !type.FullName!.Contains('<', StringComparison.Ordinal) && !type.Name.StartsWith("__", StringComparison.Ordinal))
            .Select(static type => type.FullName!)
            .Where(static name => !name.StartsWith("Millrace.AspNetCore.", StringComparison.Ordinal) && name != typeof(TypeInitialisers).FullName)
            .Order(StringComparer.Ordinal),
        TypeInitialisers.OfPlainServers.Select(static type => type.FullName!).Order(StringComparer.Ordinal));
}
