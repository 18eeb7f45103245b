// samples/Container without a container: the steps of its Dockerfile one after the other, the second stage in a root of its own, its entry point as the first process of a
// space of processes, and nginx in front with the sample's configuration.

using System.Text.Json;
using Millrace.Interop.Command;
using Millrace.Interop.FrontEnds;

namespace Millrace.Interop.Packages;

public sealed class ContainerTests(ITestOutputHelper output) : IDisposable
{
    private readonly TemporaryDirectory _directory = new("container");

    public void Dispose() => _directory.Dispose();

    [Fact]
    public async Task Its_first_process_serves_behind_nginx_ends_what_has_lost_its_parent_and_drains_on_SIGTERM()
    {
        string sample = Path.Combine(CommandProcess.Repository, "samples/Container");
        string[] steps = [.. (await File.ReadAllLinesAsync(Path.Combine(sample, "Dockerfile"))).Where(static step => step.Length > 0 && step[0] != '#')];
        int second = Array.FindLastIndex(steps, static step => step.StartsWith("FROM ", StringComparison.Ordinal));
        string build = string.Join('\n', steps[..second].Select(InBuild));
        await PackageTests.RunAsync("bash", "-euc", build.Replace("/source", _directory.Path + "/source", StringComparison.Ordinal).Replace("/out/", _directory.Path + "/out/", StringComparison.Ordinal));
        foreach (string file in (string[])["millrace.json", "nginx.conf"])
        {
            File.Copy(Path.Combine(sample, file), Path.Combine(_directory.Path, file));
        }

        string[] served = JsonSerializer.Deserialize<string[]>(steps.Single(static step => step.StartsWith("ENTRYPOINT ", StringComparison.Ordinal))["ENTRYPOINT ".Length..])!;
        string? printed = await PackageTests.InCleanRootAsync(_directory.Path, output, $$"""
            export APP_UID=1654 DOTNET_ROOT=$(dirname "$(readlink -f "$(command -v dotnet)")")
            {{string.Join('\n', steps[(second + 1)..].Select(InImage))}}
            mkdir -p /home/app /run/lock /var/log/nginx
            chown $APP_UID /home/app
            as_user() { HOME=/home/app ASPNETCORE_HTTP_PORTS=8080 exec setpriv --reuid $APP_UID --regid $APP_UID --groups 101 -- "$@"; }
            export -f as_user
            unshare --pid --fork --mount-proc bash -c 'as_user {{string.Join(' ', served)}}' > /tmp/serve.txt 2>&1 &
            unshared=$!
            for i in $(seq 300); do grep -q 'hello: generation 1 serves' /tmp/serve.txt && break; sleep 0.2; done
            cat /tmp/serve.txt
            first=$(cat /proc/$unshared/task/$unshared/children)
            first=${first%% *}
            echo "the first process is $(tr '\0' ' ' < /proc/$first/cmdline), $(grep NSpid /proc/$first/status | tr '\t' ' ')"
            stat -c '%n %u %g %a' /sockets /sockets/hello.sock

            group=$(getent group 101 | cut -d: -f1)
            [ -n "$group" ] || { group=container; groupadd --gid 101 container; }
            echo "user nobody $group; events {} http { include /in/nginx.conf; }" > /tmp/nginx.conf
            nginx -c /tmp/nginx.conf
            curl -s http://localhost/hello
            (as_user millrace get fastcgi://unix:/sockets/hello.sock /hello)
            (as_user millrace status) | grep hello

            # One that has lost its parent, and ends. Seen from outside: name and state of each child of the first process.
            children() { for stat in /proc/[0-9]*/stat; do sed -nE "s/^[0-9]+ \((.*)\) (.) $first .*/\1 \2/p" $stat 2>/dev/null || true; done; }
            nsenter --target $first --pid bash -c '(setsid sleep 2 &) ; sleep 0.3'
            children | sed -n 's/^sleep S$/the first process has a child that sleeps/p'
            sleep 4
            echo "$(children | grep -c 'sleep\|Z$' || true) are left"

            kill -TERM $first
            wait $unshared && echo "exit code $?"
            ls -A /sockets | grep . || echo the socket has gone
            """);
        if (printed is null)
        {
            return;
        }
        Assert.Matches(@"the first process is .*serve /etc/millrace/millrace\.json , NSpid: .* 1\n", printed);
        Assert.Contains("/sockets 1654 101 2750\n/sockets/hello.sock 1654 101 660\n", printed, StringComparison.Ordinal);
        Assert.Equal(3, printed.Split("Hello, World!").Length);
        Assert.Matches("(?m)^.*hello.*serving", printed);
        Assert.True(printed.Contains("the first process has a child that sleeps\n0 are left\n", StringComparison.Ordinal), printed);
        Assert.EndsWith("exit code 0\nthe socket has gone\n", printed, StringComparison.Ordinal);
    }

    private static string InBuild(string step) => step.Split(' ', 2) switch
    {
        ["FROM", _] => "",
        ["WORKDIR", var folder] => $"mkdir -p {folder}; cd {folder}",
        ["RUN", var command] => $"{command} -v quiet --nologo",
        ["COPY", var names] when names.Split(' ') is var all => $"mkdir -p {all[^1]}; tar -C {CommandProcess.Repository} --exclude=bin --exclude=obj -cf - {string.Join(' ', all[..^1])} | tar -xf -",
        _ => throw new FormatException(step),
    };

    private static string InImage(string step) => step.Split(' ', 2) switch
    {
        ["USER" or "ENTRYPOINT", _] => "",
        ["RUN", var command] => command,
        ["COPY", var names] when names.Split(' ') is ["--from=build", var from, var to] => $"cp -r /in{from} {to}",
        ["COPY", var names] when names.Split(' ') is [var from, var to] => $"install -D -m 644 /in/{Path.GetFileName(from)} {to}",
        _ => throw new FormatException(step),
    };
}
