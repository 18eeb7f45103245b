// A MariaDB of Debian for these tests alone: made in a temporary folder, reached over a Unix socket there and over nothing else. It has the user of the tests, be that root.

using Millrace.Interop.Command;
using Millrace.Interop.FrontEnds;

namespace Millrace.Browser.Php;

public sealed class MariaDb : IAsyncLifetime
{
    private const string Package = "mariadb-server-core";
    private static readonly TimeSpan s_limit = TimeSpan.FromSeconds(60);
    private static readonly string[] s_user = Environment.IsPrivilegedProcess ? ["--user=root"] : [];       // it does not run as root unless it is told to

    private readonly TemporaryDirectory _folder = new("sql");
    private CommandProcess? _server;

    /// <summary>Where it listens. Its user root needs no password.</summary>
    public string Socket => Path.Combine(_folder.Path, "sql.sock");

    public async ValueTask InitializeAsync()
    {
        string data = Path.Combine(_folder.Path, "data");
        await RunAsync(Programs.Find("mariadb-install-db", Package), ["--no-defaults", .. s_user, $"--datadir={data}", "--auth-root-authentication-method=normal", "--skip-test-db"]);
        _server = CommandProcess.StartProgram(
            Programs.Find("mariadbd", Package),
            [
                "--no-defaults", .. s_user, $"--datadir={data}", $"--socket={Socket}", $"--pid-file={Path.Combine(_folder.Path, "sql.pid")}", $"--tmpdir={_folder.Path}", "--skip-networking",
                "--skip-log-bin", "--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=64M",
            ]);
        await _server.WaitForErrorAsync("ready for connections");
    }

    /// <summary>Makes an empty database.</summary>
    public Task CreateAsync(string name) => RunAsync(Programs.Find("mariadb", "mariadb-client-core"), ["--no-defaults", $"--socket={Socket}", "--user=root", "--execute", $"CREATE DATABASE {name}"]);

    public async ValueTask DisposeAsync()
    {
        if (_server is not null)
        {
            await _server.DisposeAsync();
        }
        _folder.Dispose();
    }

    private static async Task RunAsync(string program, string[] arguments)
    {
        await using CommandProcess process = CommandProcess.StartProgram(program, arguments);
        Assert.True(await process.WaitForExitAsync(s_limit) == 0, $"{program}: {process.Output} {process.Error}");
    }
}
