// A PostgreSQL of its own for these tests: made in a temporary folder, reached over a Unix socket there, stopped and started as a test wants it. The server refuses to run as root, so
// that it runs as the user postgres then.

using System.Diagnostics;
using System.Globalization;
using Npgsql;

namespace Millrace.Sessions.Tests.PostgreSql;

public sealed class Database : IAsyncLifetime
{
    private const int Port = 5432;      // the name of a socket in the folder only
    private static readonly TimeSpan s_limit = TimeSpan.FromSeconds(60);

    private readonly DirectoryInfo _folder = Directory.CreateTempSubdirectory("millrace-sessions-pg-");
    private Process? _server;

    public string ConnectionString => $"Host={_folder.FullName};Port={Port};Username=postgres;Database=postgres;Timeout=5;Command Timeout=5";

    public async ValueTask InitializeAsync()
    {
        if (IsRoot)
        {
            await RunAsync("chown", "postgres", _folder.FullName);
        }
        await RunAsUserAsync("initdb", "-D", Path.Combine(_folder.FullName, "data"), "-U", "postgres", "-A", "trust", "--no-sync");
        await StartAsync();
    }

    public async Task StartAsync()
    {
        _server = Start(AsUser("postgres", "-D", Path.Combine(_folder.FullName, "data"), "-k", _folder.FullName, "-p", Port.ToString(CultureInfo.InvariantCulture),
            "-c", "listen_addresses=", "-c", "fsync=off", "-c", "max_connections=200"));
        var clock = Stopwatch.StartNew();
        while (true)
        {
            try
            {
                await ExecuteAsync("SELECT 1");
                return;
            }
            catch (NpgsqlException) when (clock.Elapsed < s_limit && !_server.HasExited)
            {
                await Task.Delay(20);
            }
        }
    }

    /// <summary>At once, as when the machine loses its current.</summary>
    public async Task KillAsync()
    {
        await RunAsync("kill", "-QUIT", _server!.Id.ToString(CultureInfo.InvariantCulture));
        await _server.WaitForExitAsync();
        _server.Dispose();
        _server = null;
    }

    public async Task<object?> ExecuteAsync(string statement)
    {
        await using var connection = new NpgsqlConnection(ConnectionString + ";Pooling=false");
        await connection.OpenAsync();
        await using var command = new NpgsqlCommand(statement, connection);
        return await command.ExecuteScalarAsync();
    }

    public async ValueTask DisposeAsync()
    {
        if (_server is not null)
        {
            await KillAsync();
        }
        _folder.Delete(recursive: true);
    }

    private static bool IsRoot => Environment.UserName == "root";

    private static Task RunAsUserAsync(params string[] command) => RunAsync(AsUser(command));

    private static string[] AsUser(params string[] command)
    {
        string[] programs = [.. Directory.EnumerateDirectories("/usr/lib/postgresql").Select(folder => Path.Combine(folder, "bin", command[0])).Where(File.Exists).Order(StringComparer.Ordinal)];
        Assert.True(programs.Length > 0, "PostgreSQL is lacking: apt-get install postgresql");
        command[0] = programs[^1];
        return IsRoot ? ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", "--", .. command] : command;
    }

    private static async Task RunAsync(params string[] command)
    {
        using Process process = Start(command);
        await process.WaitForExitAsync();
        Assert.True(process.ExitCode == 0, $"{string.Join(' ', command)}: {process.ExitCode}");
    }

    private static Process Start(string[] command)
    {
        var start = new ProcessStartInfo(command[0], command[1..]) { RedirectStandardOutput = true, RedirectStandardError = true, WorkingDirectory = "/" };
        Process process = Process.Start(start)!;
        process.OutputDataReceived += static (_, _) => { };
        process.ErrorDataReceived += static (_, _) => { };
        process.BeginOutputReadLine();
        process.BeginErrorReadLine();
        return process;
    }
}
