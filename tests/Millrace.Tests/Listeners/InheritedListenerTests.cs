// Sockets opened by somebody else: descriptor 0 and systemd's. The environment and the numbers are passed in, so that
// the test process's own descriptors 0 and 3 are left alone.

using System.Globalization;
using System.Net;
using System.Net.Sockets;
using Millrace.Listeners;
using Millrace.Loops;
using Millrace.Platform;

namespace Millrace.Tests.Listeners;

public sealed class InheritedListenerTests : IDisposable
{
    private const int Process = 4711;
    private const int NoDescriptor = -1;

    private readonly Dictionary<string, string> _environment = [];
    private readonly List<Socket> _sockets = [];
    private readonly List<int> _descriptors = [];
    private readonly DirectoryInfo _directory = Directory.CreateTempSubdirectory("millrace-");

    public void Dispose()
    {
        _descriptors.ForEach(static descriptor => _ = SystemCalls.Close(descriptor));
        _sockets.ForEach(static socket => socket.Dispose());
        _directory.Delete(recursive: true);
    }

    [Fact]
    public void Listening_Unix_socket_on_standard_input_is_found_FastCGI_2_2()
    {
        int descriptor = Give(ListenUnix("a.sock"))[0];
        ListenAddress found = Assert.Single(Find(standardInput: descriptor));
        Assert.Equal(ListenProtocol.FastCgi, found.Protocol);
        Assert.Equal(EndPointKind.Inherited, found.Kind);
        Assert.Equal(descriptor, found.InheritedDescriptor);
        Assert.Equal(Path.Combine(_directory.FullName, "a.sock"), found.Path);
    }

    [Fact]
    public void Listening_TCP_socket_on_standard_input_is_found_FastCGI_2_2()
    {
        Socket listener = ListenTcp();
        ListenAddress found = Assert.Single(Find(standardInput: Give(listener)[0]));
        Assert.Equal(IPAddress.Loopback, found.Address);
        Assert.Equal(((IPEndPoint)listener.LocalEndPoint!).Port, found.Port);
        Assert.Null(found.Allow);
    }

    [Fact]
    public void Connected_socket_on_standard_input_is_not_a_listener_FastCGI_2_2()
    {
        Socket listener = ListenTcp();
        Assert.Empty(Find(standardInput: Give(Connect(listener))[0]));
    }

    [Fact]
    public void Socket_that_does_not_listen_is_not_a_listener()
    {
        var bound = Keep(new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp));
        bound.Bind(new IPEndPoint(IPAddress.Loopback, 0));
        Assert.Empty(Find(standardInput: Give(bound)[0]));
    }

    [Fact]
    public void File_on_standard_input_is_not_a_listener()
    {
        using FileStream file = File.Create(Path.Combine(_directory.FullName, "input"));
        Assert.Empty(Find(standardInput: (int)file.SafeFileHandle.DangerousGetHandle()));
        Assert.Empty(Find(standardInput: NoDescriptor));
    }

    [Fact]
    public void Web_server_addresses_become_the_allow_list_FastCGI_3_2()
    {
        _environment["FCGI_WEB_SERVER_ADDRS"] = "199.170.183.28,199.170.183.71";
        ListenAddress found = Assert.Single(Find(standardInput: Give(ListenTcp())[0]));
        Assert.True(found.Allow!.Contains(IPAddress.Parse("199.170.183.71")));
        Assert.False(found.Allow.Contains(IPAddress.Loopback));
        Assert.Empty(_environment);
    }

    [Fact]
    public void Web_server_addresses_do_not_concern_Unix_sockets_FastCGI_3_2()
    {
        _environment["FCGI_WEB_SERVER_ADDRS"] = "199.170.183.28";
        Assert.Null(Assert.Single(Find(standardInput: Give(ListenUnix("a.sock"))[0])).Allow);
    }

    [Theory]
    [InlineData("")]
    [InlineData("web1")]
    [InlineData("10.0.0.5 10.0.0.6")]
    public void Bad_web_server_addresses_are_a_refusal_to_start_FastCGI_3_2(string list)
    {
        _environment["FCGI_WEB_SERVER_ADDRS"] = list;
        var refusal = Assert.Throws<MillraceStartException>(() => Find(standardInput: Give(ListenTcp())[0]));
        Assert.Contains("FCGI_WEB_SERVER_ADDRS", refusal.Message, StringComparison.Ordinal);
    }

    [Fact]
    public void Web_server_addresses_without_a_listener_are_left_alone()
    {
        _environment["FCGI_WEB_SERVER_ADDRS"] = "nonsense";
        Assert.Empty(Find());
        Assert.Single(_environment);
    }

    [Fact]
    public void Systemd_descriptors_are_found_with_their_protocols_and_the_variables_removed()
    {
        int[] given = Give(ListenUnix("a.sock"), ListenTcp());
        SetSystemd("2", names: "app.socket:http");
        IReadOnlyList<ListenAddress> found = Find(firstPassed: given[0]);
        Assert.Equal([ListenProtocol.FastCgi, ListenProtocol.Http1], found.Select(address => address.Protocol));
        Assert.Equal(given, found.Select(address => address.InheritedDescriptor));
        Assert.Empty(_environment);
    }

    [Fact]
    public void Systemd_descriptors_without_names_speak_FastCgi()
    {
        int[] given = Give(ListenTcp());
        SetSystemd("1", names: null);
        Assert.Equal(ListenProtocol.FastCgi, Assert.Single(Find(firstPassed: given[0])).Protocol);
    }

    [Fact]
    public void Systemd_descriptors_for_another_process_are_left_alone()
    {
        int[] given = Give(ListenTcp());
        SetSystemd("1", names: null);
        _environment["LISTEN_PID"] = (Process + 1).ToString(CultureInfo.InvariantCulture);
        Assert.Empty(Find(firstPassed: given[0]));
        Assert.Equal(2, _environment.Count);
    }

    [Fact]
    public void Systemd_descriptor_that_does_not_listen_is_refused()
    {
        int[] given = Give(Connect(ListenTcp()));
        SetSystemd("1", names: "conn");
        var refusal = Assert.Throws<MillraceStartException>(() => Find(firstPassed: given[0]));
        Assert.Contains("Accept=no", refusal.Message, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("two")]
    [InlineData("-1")]
    [InlineData("")]
    public void Bad_count_of_systemd_descriptors_is_refused(string count)
    {
        SetSystemd(count, names: null);
        var refusal = Assert.Throws<MillraceStartException>(() => Find());
        Assert.Contains("LISTEN_FDS", refusal.Message, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("0.0.0.0", true)]
    [InlineData("10.1.2.3", true)]
    [InlineData("::", true)]
    [InlineData("127.0.0.1", false)]
    [InlineData("::1", false)]
    public void Inherited_FastCgi_that_others_can_reach_needs_an_allow_list(string bound, bool isRefused)
    {
        var address = new ListenAddress { Protocol = ListenProtocol.FastCgi, Kind = EndPointKind.Inherited, InheritedDescriptor = 0, Address = IPAddress.Parse(bound) };
        if (isRefused)
        {
            var refusal = Assert.Throws<MillraceStartException>(() => InheritedListeners.Restrict(address, allow: null));
            Assert.Contains("FCGI_WEB_SERVER_ADDRS", refusal.Message, StringComparison.Ordinal);
        }
        else
        {
            Assert.Null(InheritedListeners.Restrict(address, allow: null).Allow);
        }

        AllowList list = AllowList.Parse("10.0.0.5");
        Assert.Same(list, InheritedListeners.Restrict(address, list).Allow);
        Assert.Null(InheritedListeners.Restrict(address with { Protocol = ListenProtocol.Http1 }, allow: null).Allow);
    }

    [Fact]
    public void Hostile_72_An_abstract_socket_is_not_taken_for_FastCGI_unasked()
    {
        int descriptor = Give(ListenAbstract(out string name))[0];
        var refusal = Assert.Throws<MillraceStartException>(() => Find(standardInput: descriptor));
        Assert.Contains($"Descriptor {descriptor} is the abstract Unix socket @{name}", refusal.Message, StringComparison.Ordinal);
        Assert.Contains($"fastcgi://fd:{descriptor}?allow=local", refusal.Message, StringComparison.Ordinal);

        SetSystemd("1", names: "app.socket");
        Assert.Equal(refusal.Message, Assert.Throws<MillraceStartException>(() => Find(firstPassed: descriptor)).Message);
        Assert.Equal(refusal.Message, Assert.Throws<MillraceStartException>(() => ListenSockets.Open(ListenAddress.Parse($"fastcgi://fd:{descriptor}"), 1)).Message);
    }

    [Fact]
    public void Hostile_72_An_abstract_socket_is_taken_where_every_process_of_the_machine_is_let_in()
    {
        int descriptor = Give(ListenAbstract(out string name))[0];
        _descriptors.Remove(descriptor);
        using ListenSocket socket = ListenSockets.Open(ListenAddress.Parse($"fastcgi://fd:{descriptor}?allow=local"), 1)[0];
        Assert.True(socket.Address.IsAbstract);
        Assert.Null(socket.Address.Allow);
        Assert.Equal("@" + name, socket.Name.Path);
    }

    [Fact]
    public void Abstract_socket_for_HTTP_is_taken_as_it_is()
    {
        int descriptor = Give(ListenAbstract(out _))[0];
        SetSystemd("1", names: "http");
        Assert.Equal(ListenProtocol.Http1, Assert.Single(Find(firstPassed: descriptor)).Protocol);
        _descriptors.Remove(descriptor);
        ListenSockets.Open(ListenAddress.Parse($"http://fd:{descriptor}"), 1)[0].Dispose();
    }

    [Fact]
    public void File_whose_name_begins_with_an_at_sign_is_not_abstract()
    {
        byte[] bytes = [1, 0, (byte)'@', (byte)'a', 0];
        Assert.Equal(new SocketName(null, 0, "@a", IsAbstract: false), SocketName.Read(bytes));
        (bytes[2], bytes[4]) = (0, (byte)'b');
        Assert.Equal(new SocketName(null, 0, "@ab", IsAbstract: true), SocketName.Read(bytes));
    }

    [Theory]
    [InlineData(true, "the mode of its file says who may connect")]
    [InlineData(false, "allow=10.0.0.5")]
    public void Consent_to_every_process_is_for_abstract_sockets(bool isUnix, string cure)
    {
        int descriptor = Give(isUnix ? ListenUnix("a.sock") : ListenTcp())[0];
        var refusal = Assert.Throws<MillraceStartException>(() => ListenSockets.Open(ListenAddress.Parse($"fastcgi://fd:{descriptor}?allow=local"), 1));
        Assert.Contains(cure, refusal.Message, StringComparison.Ordinal);
    }

    [Fact]
    public void Descriptor_given_by_number_is_taken_over()
    {
        Socket listener = ListenUnix("a.sock");
        int descriptor = Give(listener)[0];
        _ = SystemCalls.Fcntl(descriptor, SystemCalls.F_SETFD, 0);
        _descriptors.Remove(descriptor);
        using ListenSocket socket = Assert.Single(ListenSockets.Open(ListenAddress.Parse($"fastcgi://fd:{descriptor}"), 2));
        Assert.Equal(descriptor, socket.Descriptor);
        Assert.True(socket.IsShared);
        Assert.Equal(SystemCalls.FD_CLOEXEC, SystemCalls.Fcntl(descriptor, SystemCalls.F_GETFD, 0));
        Assert.NotEqual(0, SystemCalls.Fcntl(descriptor, SystemCalls.F_GETFL, 0) & SystemCalls.O_NONBLOCK);
        Assert.Equal($"fastcgi://fd:{descriptor} (unix:{Path.Combine(_directory.FullName, "a.sock")})", socket.ToString());
    }

    [Fact]
    public void File_of_an_inherited_socket_stays_with_whoever_made_it()
    {
        int descriptor = Give(ListenUnix("a.sock"))[0];
        _descriptors.Remove(descriptor);
        ListenSockets.Open(ListenAddress.Parse($"fastcgi://fd:{descriptor}"), 1)[0].Dispose();
        Assert.True(File.Exists(Path.Combine(_directory.FullName, "a.sock")));
    }

    [Fact]
    public void Allow_list_of_a_numbered_descriptor_is_kept()
    {
        int descriptor = Give(ListenTcp())[0];
        _descriptors.Remove(descriptor);
        using ListenSocket socket = ListenSockets.Open(ListenAddress.Parse($"fastcgi://fd:{descriptor}?allow=10.0.0.5"), 1)[0];
        Assert.Equal("10.0.0.5", socket.Address.Allow!.ToString());
        Assert.Equal(IPAddress.Loopback, socket.Address.Address);
    }

    [Fact]
    public void Number_that_is_no_listener_is_refused_with_a_cure()
    {
        int descriptor = Give(Connect(ListenTcp()))[0];
        var refusal = Assert.Throws<MillraceStartException>(() => ListenSockets.Open(ListenAddress.Parse($"fastcgi://fd:{descriptor}"), 1));
        Assert.Contains($"Descriptor {descriptor} is not a listening stream socket", refusal.Message, StringComparison.Ordinal);
        Assert.Throws<MillraceStartException>(() => ListenSockets.Open(ListenAddress.Parse("fastcgi://fd:1000000"), 1));
    }

    [Fact]
    public void Standard_descriptor_is_moved_and_its_number_becomes_dev_null()
    {
        Socket listener = ListenTcp();
        int descriptor = Give(listener)[0];
        int moved = InheritedListeners.TakeOver(descriptor, isStandard: true);
        _descriptors.Add(moved);
        Assert.NotEqual(descriptor, moved);
        Assert.Equal("/dev/null", new FileInfo($"/proc/self/fd/{descriptor}").LinkTarget);
        Assert.Equal(((IPEndPoint)listener.LocalEndPoint!).Port, SocketName.Of(moved)!.Value.Port);
    }

    private IReadOnlyList<ListenAddress> Find(int standardInput = NoDescriptor, int firstPassed = int.MaxValue) =>
        InheritedListeners.Find(name => _environment.GetValueOrDefault(name), name => _environment.Remove(name), Process, standardInput, firstPassed);

    private void SetSystemd(string count, string? names)
    {
        _environment["LISTEN_FDS"] = count;
        _environment["LISTEN_PID"] = Process.ToString(CultureInfo.InvariantCulture);
        if (names is not null)
        {
            _environment["LISTEN_FDNAMES"] = names;
        }
    }

    private Socket ListenUnix(string name)
    {
        // A copy listens on when the Socket that made it is gone; so its file is there for the whole test.
        var listener = Keep(new Socket(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified));
        listener.Bind(new UnixDomainSocketEndPoint(Path.Combine(_directory.FullName, name)));
        listener.Listen();
        return listener;
    }

    private Socket ListenAbstract(out string name)
    {
        name = $"millrace-{Guid.NewGuid():N}";
        var listener = Keep(new Socket(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified));
        listener.Bind(new UnixDomainSocketEndPoint("\0" + name));
        listener.Listen();
        return listener;
    }

    private Socket ListenTcp()
    {
        var listener = Keep(new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp));
        listener.Bind(new IPEndPoint(IPAddress.Loopback, 0));
        listener.Listen();
        return listener;
    }

    private Socket Connect(Socket listener)
    {
        var client = Keep(new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp));
        client.Connect(listener.LocalEndPoint!);
        return client;
    }

    private Socket Keep(Socket socket)
    {
        _sockets.Add(socket);
        return socket;
    }

    /// <summary>Copies of the descriptors with consecutive numbers, as a parent process hands them over.</summary>
    private int[] Give(params Socket[] sockets)
    {
        for (int lowest = 500; ; lowest += 50)
        {
            int[] copies = [.. sockets.Select(socket => SystemCalls.Fcntl((int)socket.SafeHandle.DangerousGetHandle(), SystemCalls.F_DUPFD_CLOEXEC, lowest))];
            Assert.All(copies, copy => Assert.True(copy >= 0));
            if (copies[^1] - copies[0] == copies.Length - 1)
            {
                _descriptors.AddRange(copies);
                return copies;
            }

            Array.ForEach(copies, copy => _ = SystemCalls.Close(copy));
        }
    }
}
