// A MariaDB of Debian for these tests alone: made in a temporary folder, reached over a Unix socket there and over nothing else. It does not run as root: where the tests do, it runs as the user mysql.

using System.Diagnostics;
using Millrace.Interop.Command;
using Millrace.Interop.FrontEnds;

namespace Millrace.Browser.Php;

public sealed class MariaDb : IAsyncLifetime
{
    private const string Package = "mariadb-server";
    private static readonly TimeSpan s_limit = TimeSpan.FromSeconds(60);

    private readonly TemporaryDirectory _folder = new("sql", searchable: true);
    private CommandProcess? _server;

    /// <summary>Where it listens. Its user root needs no password.</summary>
    public string Socket => Path.Combine(_folder.Path, "sql.sock");

    public async ValueTask InitializeAsync()
    {
        string program = Programs.Find("mariadbd", Package);
        string data = Path.Combine(_folder.Path, "data");
        if (Environment.IsPrivilegedProcess)
        {
            await RunAsync("chown", "mysql", _folder.Path);
        }
        await RunAsync([.. s_user, Programs.Find("mariadb-install-db", Package), "--no-defaults", $"--datadir={data}", "--auth-root-authentication-method=normal", "--skip-test-db"]);
        _server = CommandProcess.StartProgram(
            "env",
            [
                .. s_user, program, "--no-defaults", $"--datadir={data}", $"--socket={Socket}", $"--pid-file={Path.Combine(_folder.Path, "sql.pid")}", $"--tmpdir={_folder.Path}", "--skip-networking",
                "--skip-log-bin", "--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=64M",
            ]);
        await _server.WaitForErrorAsync("ready for connections");
    }

    /// <summary>Makes an empty database.</summary>
    public Task CreateAsync(string name) => RunAsync(Programs.Find("mariadb", "mariadb-client"), "--no-defaults", $"--socket={Socket}", "--user=root", "--execute", $"CREATE DATABASE {name}");

    public async ValueTask DisposeAsync()
    {
        if (_server is not null)
        {
            await _server.DisposeAsync();
        }
        _folder.Dispose();
    }

    private static readonly string[] s_user = Environment.IsPrivilegedProcess ? ["setpriv", "--reuid=mysql", "--regid=mysql", "--clear-groups", "--"] : [];

    private static async Task RunAsync(params string[] command)
    {
        await using CommandProcess process = CommandProcess.StartProgram("env", command);
        Assert.True(await process.WaitForExitAsync(s_limit) == 0, $"{string.Join(' ', command)}: {process.Output} {process.Error}");
    }
}
