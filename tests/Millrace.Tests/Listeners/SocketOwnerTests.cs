// The names in refusals: processes, ports, and the kernel's way of printing addresses.

using System.Diagnostics;
using System.Net;
using System.Net.Sockets;
using Millrace.Listeners;

namespace Millrace.Tests.Listeners;

public sealed class SocketOwnerTests
{
    [Fact]
    public void Process_is_named_by_number_and_command()
    {
        using Process child = Process.Start(new ProcessStartInfo("sleep", "30"))!;
        try
        {
            Assert.Equal($"process {child.Id} (sleep)", SocketOwner.Describe(child.Id));
        }
        finally
        {
            child.Kill();
            child.WaitForExit();
        }

        Assert.Equal($"process {child.Id}", SocketOwner.Describe(child.Id));
    }

    [Fact]
    public void Hostile_70_A_process_that_names_itself_with_controls_is_shown_without_them()
    {
        using Process child = Process.Start(new ProcessStartInfo("sh", ["-c", "printf 'a\\033[2J\\nb' > /proc/$$/comm; echo ready; read line"]) { RedirectStandardInput = true, RedirectStandardOutput = true })!;
        try
        {
            Assert.Equal("ready", child.StandardOutput.ReadLine());
            Assert.Equal($"process {child.Id} (a?[2J?b)", SocketOwner.Describe(child.Id));
        }
        finally
        {
            child.Kill();
            child.WaitForExit();
        }

        Assert.Equal("a?b", SocketOwner.Printable("a\u202Eb\r\n"));
    }

    [Fact]
    public void Own_process_and_processes_out_of_sight_are_said_so()
    {
        Assert.Equal("this process", SocketOwner.Describe(Environment.ProcessId));
        Assert.Equal("a process outside this container", SocketOwner.Describe(0));
    }

    [Theory]
    [InlineData("127.0.0.1")]
    [InlineData("::1")]
    public void Listening_port_leads_to_its_process(string text)
    {
        var address = IPAddress.Parse(text);
        using var listener = new Socket(address.AddressFamily, SocketType.Stream, ProtocolType.Tcp);
        listener.Bind(new IPEndPoint(address, 0));
        int port = ((IPEndPoint)listener.LocalEndPoint!).Port;
        Assert.Null(SocketOwner.OfPort(address, port)); // bound, not yet listening
        listener.Listen();
        Assert.Equal("this process", SocketOwner.OfPort(address, port));
        Assert.Equal("this process", SocketOwner.OfPort(IPAddress.IPv6Any, port));
    }

    [Theory]
    [InlineData("0100007F:2328", "127.0.0.1", 9000)]
    [InlineData("00000000:0050", "0.0.0.0", 80)]
    [InlineData("00000000000000000000000001000000:FFFF", "::1", 65535)]
    [InlineData("0000000000000000FFFF00000100007F:2328", "::ffff:127.0.0.1", 9000)]
    public void Addresses_in_proc_are_words_in_host_order(string text, string address, int port) =>
        Assert.Equal(new IPEndPoint(IPAddress.Parse(address), port), SocketOwner.ReadEndPoint(text));

    [Theory]
    [InlineData("")]
    [InlineData("0100007F")]
    [InlineData("0100007F:")]
    [InlineData("0100007:2328")]
    [InlineData("010000xx:2328")]
    [InlineData("local_address")]
    public void Other_words_in_proc_are_not_addresses(string text) => Assert.Null(SocketOwner.ReadEndPoint(text));
}
