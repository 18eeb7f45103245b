// The packages, made as for a release, installed in a root of their own: that of this machine, without the clone and without what the package must bring along.
// Where this machine lets nobody have such a root, what they hold is run from a folder.

using Millrace.Interop.Command;
using Millrace.Interop.FrontEnds;

namespace Millrace.Interop.Packages;

public sealed class PackageTests(DebianPackage debian, ITestOutputHelper output) : IClassFixture<DebianPackage>, IDisposable
{
    private const int NoRoot = 77;

    private static readonly string Source = Path.Combine(CommandProcess.Repository, "tests/Millrace.Interop/Packages");
    private readonly TemporaryDirectory _directory = new("packages");

    public void Dispose() => _directory.Dispose();

    [Fact]
    public async Task Debian_package_installs_serves_an_application_as_its_own_user_and_leaves_nothing()
    {
        string package = debian.CopyTo(_directory.Path);
        Copy(CommandProcess.AssemblyOf("samples/Hello", "Hello"), "site");
        string? installed = await InCleanRootAsync(hidden: "", """
            dpkg -i /in/*.deb
            cp -r /in/site /srv/site
            cd /
            $(sed -n s/^ExecStart=//p /usr/lib/systemd/system/millrace.service) > /tmp/serve.txt 2>&1 &
            for i in $(seq 300); do grep -q 'site: generation 1 serves' /tmp/serve.txt && break; sleep 0.2; done
            cat /tmp/serve.txt
            millrace get fastcgi://unix:/run/site.sock /
            millrace status --control /run/millrace/control.sock
            for process in /proc/[0-9]*; do
                tr '\0' ' ' < $process/cmdline | grep -q '^[^ ]*dotnet /var/cache/millrace/.*Hello' && echo "the user is $(stat -c %U $process)"
            done || true
            $(sed -n s/^ExecReload=//p /usr/lib/systemd/system/millrace.service)
            millrace config nginx /etc/millrace/millrace.json > /etc/nginx/conf.d/site.conf
            millrace shutdown --control /run/millrace/control.sock
            wait
            zcat /usr/share/man/man1/millrace.1.gz | head -1
            bash --norc -c 'source /usr/share/bash-completion/completions/millrace && complete -p millrace'
            head -1 /usr/share/zsh/vendor-completions/_millrace
            head -1 /usr/share/fish/vendor_completions.d/millrace.fish
            stat -c '%n %A %U' /usr/bin/millrace /usr/lib/millrace/Millrace.Command /etc/millrace/millrace.json
            dpkg --purge millrace
            ls -d /usr/lib/millrace /usr/bin/millrace /etc/millrace /var/cache/millrace 2>&1 | grep -v 'No such file' || echo nothing is left
            """);
        if (installed is not null)
        {
            Assert.Contains("Hello", installed, StringComparison.Ordinal);
            Assert.Contains("the user is millrace", installed, StringComparison.Ordinal);
            Assert.Contains("/etc/millrace/millrace.json -rw-r--r-- root", installed, StringComparison.Ordinal);
            Assert.Contains("complete -F _millrace millrace\n#compdef millrace\n# Completion of the command millrace for fish", installed, StringComparison.Ordinal);
            Assert.Contains("nothing is left", installed, StringComparison.Ordinal);
            return;
        }

        await RunAsync("dpkg-deb", "-x", package, Path.Combine(_directory.Path, "root"));
        Assert.Contains("millrace serve", await RunAsync(Path.Combine(_directory.Path, "root/usr/lib/millrace/Millrace.Command"), "--help"), StringComparison.Ordinal);
    }

    [Fact]
    public async Task Debian_package_needs_no_dotnet_and_says_so_where_an_application_does()
    {
        _ = debian.CopyTo(_directory.Path);
        Copy(CommandProcess.AssemblyOf("samples/Hello", "Hello"), "site");
        string? installed = await InCleanRootAsync(hidden: Hidden(), """
            dpkg -i /in/*.deb
            millrace --version
            millrace config nginx fastcgi://unix:/run/site.sock
            millrace run /in/site && exit 1 || echo "exit code $?"
            """);
        if (installed is not null)
        {
            Assert.Contains("server unix:/run/site.sock;", installed, StringComparison.Ordinal);
            Assert.Contains("There is no `dotnet` on the PATH. Install .NET 10", installed, StringComparison.Ordinal);
            Assert.Contains("exit code 1", installed, StringComparison.Ordinal);
        }
    }

    // The service manager alone is another: it starts what the unit says.
    [Fact]
    public async Task The_ten_commands_of_docs_deploying_lead_to_a_site_behind_nginx()
    {
        string package = debian.CopyTo(_directory.Path);
        string[] commands = File.ReadAllText(Path.Combine(CommandProcess.Repository, "docs/deploying.md")).Split("```")[1].Split('\n', StringSplitOptions.RemoveEmptyEntries);
        Assert.Equal(10, commands.Length);
        commands[2] = commands[2].Replace("millrace_0.1.0_amd64.deb", Path.GetFileName(package), StringComparison.Ordinal);

        // Its template asks for a package that not everybody who runs this can get.
        await RunAsync("bash", "-euc", $"cd {_directory.Path}\n{commands[0]} --no-restore\n{commands[1]} || {{ {commands[0]} --no-openapi --force && {commands[1]}; }}");
        string? deployed = await InCleanRootAsync(hidden: "/var/lib/apt/lists", $$"""
            cat > /usr/local/sbin/systemctl <<'END'
            #!/bin/bash
            case "$*" in
                "enable --now millrace")
                    $(sed -n s/^ExecStart=//p /usr/lib/systemd/system/millrace.service) > /tmp/serve.txt 2>&1 &
                    for i in $(seq 300); do grep -q 'generation 1 serves' /tmp/serve.txt && exit 0; sleep 0.2; done
                    cat /tmp/serve.txt; exit 1 ;;
                "reload nginx") nginx -s reload ;;
                *) echo "unexpected: $*"; exit 1 ;;
            esac
            END
            chmod +x /usr/local/sbin/systemctl
            PATH=/usr/local/sbin:$PATH
            mkdir -p /run/lock /var/log/nginx /tmp/in
            nginx
            cd /in
            {{string.Join('\n', commands[2..9])}}
            for i in $(seq 50); do curl -s -f -o /dev/null http://site.localhost/weatherforecast && break; sleep 0.1; done
            {{commands[9]}}
            echo
            millrace shutdown --control /run/millrace/control.sock
            """);
        if (deployed is not null)
        {
            Assert.Contains("temperatureC", deployed, StringComparison.Ordinal);
            Assert.Contains("test is successful", deployed, StringComparison.Ordinal);
        }
    }

    [Fact]
    public async Task Tool_package_installs_and_runs_an_application()
    {
        await RunAsync("dotnet", "pack", Path.Combine(CommandProcess.Repository, "src/Millrace.Command"), "-c", "Release", "--artifacts-path", Path.Combine(_directory.Path, "build"), "-o", _directory.Path, "-v", "quiet", "--nologo");
        Directory.Delete(Path.Combine(_directory.Path, "build"), recursive: true);
        Copy(CommandProcess.AssemblyOf("samples/Hello", "Hello"), "site");
        const string Use = """
            printf '<configuration><packageSources><clear/><add key="in" value="%s"/></packageSources></configuration>' "$in" > "$in/nuget.config"
            export DOTNET_CLI_TELEMETRY_OPTOUT=1 DOTNET_NOLOGO=1 DOTNET_CLI_HOME="$in/home" NUGET_PACKAGES="$in/packages"
            dotnet tool install Millrace.Command --tool-path "$in/tools" --configfile "$in/nuget.config"
            "$in/tools/millrace" run "$in/site" --urls "fastcgi://unix:$in/s" > "$in/run.txt" 2>&1 &
            for i in $(seq 300); do [ -S "$in/s" ] && break; sleep 0.2; done
            "$in/tools/millrace" get "fastcgi://unix:$in/s" / || { cat "$in/run.txt"; exit 1; }
            kill $!
            wait
            dotnet tool uninstall Millrace.Command --tool-path "$in/tools"
            """;
        string used = await InCleanRootAsync(hidden: "", "in=/in\n" + Use) ?? await RunAsync("bash", "-euc", $"in={_directory.Path}\n{Use}");
        Assert.Contains("Tool 'millrace.command' (version", used, StringComparison.Ordinal);
        Assert.Contains("Hello", used, StringComparison.Ordinal);
        Assert.Contains("was successfully uninstalled", used, StringComparison.Ordinal);
    }

    // All that is called dotnet: a runtime that is found is used.
    private static string Hidden() => string.Join(':', (Environment.GetEnvironmentVariable("PATH") ?? "").Split(':').Append("/usr/bin").Select(static folder => Path.Combine(folder, "dotnet")).Distinct()
        .Where(File.Exists).SelectMany(static file => (IEnumerable<string?>)[file, Path.GetDirectoryName(File.ResolveLinkTarget(file, returnFinalTarget: true)?.FullName)]).OfType<string>());

    private void Copy(string assembly, string name)
    {
        string target = Path.Combine(_directory.Path, name);
        Directory.CreateDirectory(target);
        foreach (string file in Directory.GetFiles(Path.GetDirectoryName(assembly)!))
        {
            File.Copy(file, Path.Combine(target, Path.GetFileName(file)));
        }
    }

    private Task<string?> InCleanRootAsync(string hidden, string script) => InCleanRootAsync(_directory.Path, output, script, hidden);

    /// <summary>What a script prints in a root of its own, with a folder's files in /in; null where there may be none.</summary>
    internal static async Task<string?> InCleanRootAsync(string folder, ITestOutputHelper output, string script, string hidden = "")
    {
        await using var process = CommandProcess.StartProgram(Path.Combine(Source, "clean-root"), folder, hidden, "exec 2>&1\n" + script);
        int exitCode = await process.WaitForExitAsync(TimeSpan.FromMinutes(5));
        if (exitCode == NoRoot)
        {
            output.WriteLine("There may be no other root here: what the package holds is run from a folder.");
            return null;
        }

        Assert.True(exitCode == 0, process.Output + process.Error);
        return process.Output;
    }

    internal static async Task<string> RunAsync(string program, params string[] arguments)
    {
        // What is compiled here has been looked at by the analyzers when this test was.
        await using var process = CommandProcess.StartProgram("env", ["RunAnalyzers=false", program, .. arguments]);
        Assert.True(await process.WaitForExitAsync(TimeSpan.FromMinutes(8)) == 0, process.Output + process.Error);
        return process.Output;
    }
}

/// <summary>The package, made once.</summary>
public sealed class DebianPackage : IAsyncLifetime
{
    private readonly TemporaryDirectory _directory = new("debian");
    private string _package = "";

    public async ValueTask InitializeAsync() =>
        _package = (await PackageTests.RunAsync(Path.Combine(CommandProcess.Repository, "packaging/deb"), _directory.Path)).Trim();

    public string CopyTo(string folder)
    {
        string copy = Path.Combine(folder, Path.GetFileName(_package));
        File.Copy(_package, copy);
        return copy;
    }

    public ValueTask DisposeAsync()
    {
        _directory.Dispose();
        return ValueTask.CompletedTask;
    }
}
