// What a connection keeps of trailers while it waits for its next request.

using System.Reflection;
using System.Text;
using Millrace.Protocols;
using Millrace.Protocols.Http1;

namespace Millrace.Tests.Protocols.Http1;

public sealed class TrailerMemoryTests
{
    [Theory]
    [InlineData(8, true)]
    [InlineData(9, false)]
    public void A_long_table_of_trailers_ends_with_their_request(int fields, bool stays)
    {
        object section = new TrailerSection(bytesMax: 4_096, countMax: 100);
        byte[] bytes = Encoding.ASCII.GetBytes(string.Concat(Enumerable.Range(0, fields).Select(static i => $"X-{i}: a\r\n")) + "\r\n");
        ref TrailerSection trailers = ref System.Runtime.CompilerServices.Unsafe.Unbox<TrailerSection>(section);
        Assert.Equal(ReadResult.Done, trailers.Read(bytes, out _, out _));
        Assert.Equal(fields, trailers.Fields.Length);

        trailers.PassOver();

        Assert.Equal(0, trailers.Fields.Length);
        Assert.Equal(stays, typeof(TrailerSection).GetField("_fields", BindingFlags.NonPublic | BindingFlags.Instance)!.GetValue(section) is not null);
    }
}
