// systemd keeps what the daemon listens on while it is started again. It is played here: a socket that takes what it is told to keep, and a start that passes that back.

using System.Net;
using System.Net.Sockets;
using System.Runtime.InteropServices;
using System.Text;

namespace Millrace.Interop.Command;

public sealed partial class ServeTests
{
    [Fact]
    public async Task Nobody_is_refused_and_no_request_lost_while_systemd_starts_the_daemon_again()
    {
        using var manager = new FakeManager(Path.Combine(_directory.Path, "notify"));
        Write(App("shop", $"fastcgi://unix:{Socket};{_shop}"), App("blog", _blog));
        var daemon = StartUnder(manager);
        await daemon.WaitForErrorAsync("millrace: serving ");
        await WaitForStatusAsync("shop", "serving");
        await WaitForStatusAsync("blog", "serving");
        string process = await _client.GetStringAsync(_shop + "/process");
        using var stop = new CancellationTokenSource();
        var clients = Enumerable.Range(0, 4).Select(i => Task.Run(() => i % 2 == 0 ? AskOverHttpAsync(i, stop.Token) : AskOverFastCgiAsync(i, stop.Token))).ToArray();
        var visitors = Task.Run(() => VisitAsync(stop.Token));

        for (int i = 0; i < 2; i++)
        {
            await Task.Delay(500);
            daemon.Signal(CommandProcess.SigTerm);
            Assert.Equal(0, await daemon.WaitForExitAsync());
            Assert.True(System.IO.File.Exists(Socket));
            daemon = StartUnder(manager);
            await daemon.WaitForOutputAsync("shop: generation 1 serves");
            await daemon.WaitForOutputAsync("blog: generation 1 serves");
        }
        await Task.Delay(500);
        await stop.CancelAsync();
        Assert.All(await Task.WhenAll(clients), static count => Assert.InRange(count, 10, int.MaxValue));
        Assert.InRange(await visitors, 3, int.MaxValue);
        Assert.NotEqual(process, await _client.GetStringAsync(_shop + "/process"));

        // An application that is stopped has nothing that could be kept, and one that is gone neither.
        int before = manager.Kept.Count;
        Assert.Equal(0, (await DoAsync("stop", "blog")).ExitCode);
        await WaitForAsync(() => Task.FromResult(manager.Kept.Count < before && manager.Kept.All(static its => !its.Name.StartsWith("millrace.blog.", StringComparison.Ordinal))));
    }

    [Fact]
    public async Task A_daemon_that_is_killed_under_systemd_has_processes_and_addresses_back()
    {
        using var manager = new FakeManager(Path.Combine(_directory.Path, "notify"));
        Write(App("shop", _shop), App("demand", _blog, "\"onDemand\": true"));
        var daemon = StartUnder(manager);
        await daemon.WaitForErrorAsync("millrace: serving ");
        await WaitForStatusAsync("shop", "serving");
        await WaitForStatusAsync("demand", "idle");
        string process = await _client.GetStringAsync(_shop + "/process");
        daemon.Signal(CommandProcess.SigKill);
        await daemon.WaitForExitAsync();
        var waits = _client.GetStringAsync(_blog + "/title");       // there is no process that could have kept this address open
        await Task.Delay(300);

        daemon = StartUnder(manager);
        Assert.Equal("", await waits);
        Assert.Equal(process, await _client.GetStringAsync(_shop + "/process"));
        daemon.Signal(CommandProcess.SigKill);
        await daemon.WaitForExitAsync();
        daemon = StartUnder(manager);
        await daemon.WaitForErrorAsync("millrace: serving ");
        await WaitForStatusAsync("shop", "serving");
        Assert.Equal(process, await _client.GetStringAsync(_shop + "/process"));
    }

    private async Task<int> VisitAsync(CancellationToken stop)
    {
        int count = 0;
        for (; !stop.IsCancellationRequested; count++)
        {
            using var client = new HttpClient { Timeout = Patience };
            Assert.Equal("", await client.GetStringAsync(_shop + "/title", CancellationToken.None));
        }
        return count;
    }

    private CommandProcess StartUnder(FakeManager manager)
    {
        // sd_listen_fds(3): from 3 on, and for this process.
        var kept = manager.Kept;
        string passed = string.Join(' ', kept.Select(static (its, i) => $"{i + 3}<&{its.Descriptor + 100}"));
        string moved = string.Join(' ', kept.Select(static its => $"{its.Descriptor + 100}<&{its.Descriptor}"));
        string command = CommandProcess.AssemblyOf("src/Millrace.Command", "Millrace.Command");
        string script = $"exec {moved}; exec {passed}; export LISTEN_PID=$$ LISTEN_FDS={kept.Count} LISTEN_FDNAMES={string.Join(':', kept.Select(static its => its.Name))}; exec dotnet {command} serve {File}";
        var daemon = CommandProcess.StartProgram("env", "NOTIFY_SOCKET=" + manager.Path, "FDSTORE=1024", "bash", "-c", script);
        _daemons.Add(daemon);
        return daemon;
    }

    private sealed unsafe partial class FakeManager : IDisposable
    {
        private readonly Socket _socket = new(AddressFamily.Unix, SocketType.Dgram, ProtocolType.Unspecified);
        private readonly List<(string Name, int Descriptor)> _kept = [];

        public FakeManager(string path)
        {
            Path = path;
            _socket.Bind(new UnixDomainSocketEndPoint(path));
            new Thread(Run) { IsBackground = true }.Start();
        }

        public string Path { get; }

        public IReadOnlyList<(string Name, int Descriptor)> Kept
        {
            get
            {
                lock (_kept)
                {
                    return [.. _kept];
                }
            }
        }

        public void Dispose()
        {
            _socket.Dispose();
            foreach (var (_, descriptor) in Kept)
            {
                _ = Close(descriptor);
            }
        }

        private void Run()
        {
            byte* text = stackalloc byte[4_096];
            byte* control = stackalloc byte[1_024];
            while (true)
            {
                var vector = new Vector { Base = text, Length = 4_096 };
                var message = new Message { Vectors = &vector, VectorCount = 1, Control = control, ControlLength = 1_024 };
                nint length = Receive((int)_socket.Handle, &message, 0);
                if (length < 0)
                {
                    return;
                }
                string[] said = Encoding.UTF8.GetString(text, (int)length).Split('\n');
                string? name = said.FirstOrDefault(static line => line.StartsWith("FDNAME=", StringComparison.Ordinal))?["FDNAME=".Length..];
                int[] descriptors = message.ControlLength >= 16 ? new ReadOnlySpan<int>(control + 16, (int)(*(nint*)control - 16) / sizeof(int)).ToArray() : [];
                lock (_kept)
                {
                    if (said.Contains("FDSTOREREMOVE=1"))
                    {
                        _kept.Where(its => its.Name == name).ToList().ForEach(static its => _ = Close(its.Descriptor));
                        _kept.RemoveAll(its => its.Name == name);
                    }
                    foreach (int descriptor in descriptors)
                    {
                        // As systemd does: what it has already it does not keep twice.
                        if (!said.Contains("FDSTORE=1") || _kept.Exists(its => Same(its.Descriptor, descriptor)))
                        {
                            _ = Close(descriptor);
                            continue;
                        }
                        _kept.Add((name!, descriptor));
                    }
                }
            }
        }

        private static bool Same(int one, int other) => new FileInfo($"/proc/self/fd/{one}").LinkTarget == new FileInfo($"/proc/self/fd/{other}").LinkTarget;

        [StructLayout(LayoutKind.Sequential)]
        private struct Vector
        {
            public void* Base;
            public nint Length;
        }

        [StructLayout(LayoutKind.Sequential)]
        private struct Message
        {
            public void* Name;
            public uint NameLength;
            public Vector* Vectors;
            public nint VectorCount;
            public void* Control;
            public nint ControlLength;
            public int Flags;
        }

        [LibraryImport("libc", EntryPoint = "recvmsg")]
        private static partial nint Receive(int socket, Message* message, int flags);

        [LibraryImport("libc", EntryPoint = "close")]
        private static partial int Close(int descriptor);
    }
}
