// The fixed-size values on the wire: sizes, symmetry, padding, reserved bytes.
using System.Runtime.CompilerServices;
using Millrace.Protocols.FastCgi;

namespace Millrace.Tests.Protocols.FastCgi;

public sealed class RecordHeaderTests
{
    [Fact]
    public void Head_of_each_of_the_256_types_survives_write_and_read_FastCGI_3_3()
    {
        Span<byte> wire = stackalloc byte[RecordHeader.Size];
        foreach (int type in Enumerable.Range(0, 256))
        {
            wire.Fill(0xAA);
            RecordHeader.Write(wire, (RecordType)type, (ushort)(type * 257), type * 257, 255 - type);
            RecordHeader read = RecordHeader.Read(wire);
            Assert.Equal(new RecordHeader((RecordType)type, (ushort)(type * 257), type * 257, 255 - type), read);
            Assert.Equal((1, (RecordType)type, type * 257, type * 257, 255 - type), (read.Version, read.Type, read.RequestId, read.ContentLength, read.PaddingLength));
            Assert.Equal(0, wire[7]);

            var again = new byte[RecordHeader.Size];
            read.Write(again);
            Assert.Equal(wire.ToArray(), again);
        }
    }

    [Fact]
    public void Head_has_the_layout_of_FastCGI_3_3()
    {
        var wire = new byte[RecordHeader.Size];
        RecordHeader.Write(wire, RecordType.Stdin, 0x1234, 0x5678, 0x9A);
        Assert.Equal([1, 5, 0x12, 0x34, 0x56, 0x78, 0x9A, 0], wire);
        Assert.Equal(7, RecordHeader.Read([7, 0, 0, 0, 0, 0, 0, 0]).Version);
    }

    [Fact]
    public void Wire_values_have_the_size_they_have_on_the_wire()
    {
        Assert.Equal(RecordHeader.Size, Unsafe.SizeOf<RecordHeader>());
        Assert.Equal([8, 8, 8, 8], [RecordHeader.Size, BeginRequest.Size, EndRequest.Size, UnknownType.Size]);
    }

    [Fact]
    public void Padding_brings_content_to_a_multiple_of_8_with_as_little_as_possible_FastCGI_3_3()
    {
        foreach (int length in Enumerable.Range(0, RecordHeader.ContentLengthMax + 1))
        {
            int padding = RecordHeader.PaddingFor(length);
            Assert.InRange(padding, 0, 7);
            Assert.Equal(0, (length + padding) % 8);
        }
    }

    [Theory]
    [InlineData(Role.Responder, true)]
    [InlineData(Role.Authorizer, false)]
    [InlineData((Role)0xFFFE, true)]
    [InlineData((Role)0, false)]
    public void Begin_request_survives_write_and_read_FastCGI_5_1(Role role, bool keep)
    {
        var wire = new byte[BeginRequest.Size];
        Array.Fill(wire, (byte)0xAA);
        new BeginRequest(role, keep).Write(wire);
        Assert.Equal(new BeginRequest(role, keep), BeginRequest.Read(wire));
        Assert.Equal([(byte)((int)role >> 8), (byte)role, keep ? (byte)1 : (byte)0, 0, 0, 0, 0, 0], wire);
    }

    [Theory]
    [InlineData(0u, ProtocolStatus.RequestComplete)]
    [InlineData(0xDEADBEEFu, ProtocolStatus.UnknownRole)]
    [InlineData(1u, ProtocolStatus.Overloaded)]
    [InlineData(uint.MaxValue, (ProtocolStatus)255)]
    public void End_request_survives_write_and_read_and_its_reserved_bytes_are_zero_FastCGI_5_5(uint appStatus, ProtocolStatus status)
    {
        var wire = new byte[EndRequest.Size];
        Array.Fill(wire, (byte)0xAA);
        new EndRequest(appStatus, status).Write(wire);
        Assert.Equal(new EndRequest(appStatus, status), EndRequest.Read(wire));
        Assert.Equal([(byte)(appStatus >> 24), (byte)(appStatus >> 16), (byte)(appStatus >> 8), (byte)appStatus, (byte)status, 0, 0, 0], wire);
    }

    [Fact]
    public void Unknown_type_survives_write_and_read_and_its_reserved_bytes_are_zero_FastCGI_4_2()
    {
        var wire = new byte[UnknownType.Size];
        foreach (int type in Enumerable.Range(0, 256))
        {
            Array.Fill(wire, (byte)0xAA);
            UnknownType.Write(wire, (byte)type);
            Assert.Equal(type, UnknownType.Read(wire));
            Assert.Equal([(byte)type, 0, 0, 0, 0, 0, 0, 0], wire);
        }
    }

    [Theory]
    [InlineData(0, 8, FastCgiFault.BeginId)]
    [InlineData(1, 7, FastCgiFault.BeginLength)]
    [InlineData(1, 9, FastCgiFault.BeginLength)]
    [InlineData(1, 0, FastCgiFault.BeginLength)]
    [InlineData(65535, 8, FastCgiFault.None)]
    public void Begin_request_needs_an_id_and_8_bytes_FastCGI_5_1(ushort id, int length, FastCgiFault expected) => Assert.Equal(expected, BeginRequest.Check(id, length));
}
