// Where an application tells Kestrel to listen: in code (ListenLocalhost, ListenUnixSocket, ...) and in the section
// "Kestrel:Endpoints". Nothing of Kestrel is started for it. This file is compiled into the start-up hook as well.

using System.Runtime.CompilerServices;
using Microsoft.AspNetCore.Server.Kestrel.Core;
using Microsoft.Extensions.Configuration;

namespace Millrace.AspNetCore;

/// <param name="Http">Addresses that speak HTTP/1.1, such as <c>http://localhost:5000</c>.</param>
/// <param name="Others">What cannot be listened on, each with the reason.</param>
internal sealed record KestrelEndpoints(IReadOnlyList<string> Http, IReadOnlyList<string> Others)
{
    public static KestrelEndpoints None { get; } = new([], []);

    public static KestrelEndpoints Of(KestrelServerOptions options)
    {
        List<string> http = [];
        List<string> others = [];
        foreach (ListenOptions endpoint in InCode(options))
        {
            Sort(endpoint.ToString() ?? "", endpoint.Protocols, "an endpoint in code");
        }

        foreach (IConfigurationSection endpoint in options.ConfigurationLoader?.Configuration.GetSection("Endpoints").GetChildren() ?? [])
        {
            _ = Enum.TryParse(endpoint["Protocols"], ignoreCase: true, out HttpProtocols protocols);
            Sort(endpoint["Url"] ?? "", protocols, endpoint.Path);
        }

        return new KestrelEndpoints(http, others);

        void Sort(string url, HttpProtocols protocols, string name)
        {
            string? hindrance = url switch
            {
                "" => "it has no Url",
                _ when url.StartsWith("https:", StringComparison.OrdinalIgnoreCase) => "TLS is the web server's",
                _ when !url.StartsWith("http:", StringComparison.OrdinalIgnoreCase) || url.Contains('<', StringComparison.Ordinal) => "it is no address",
                _ when protocols != HttpProtocols.None && !protocols.HasFlag(HttpProtocols.Http1) => $"{protocols} is not spoken",
                _ => null,
            };
            if (hindrance is null)
            {
                // To Kestrel every address of IPv6 is every address.
                http.Add(url.Replace("://[::]", "://*", StringComparison.Ordinal));
            }
            else
            {
                others.Add($"{name} {url}".Trim() + $" ({hindrance})");
            }
        }
    }

    // Not public, and without it only what is said in code is not seen. Known to the trimmer.
    private static List<ListenOptions> InCode(KestrelServerOptions options)
    {
        try
        {
            return CodeBackedListenOptions(options);
        }
        catch (MissingMethodException)
        {
            return [];
        }
    }

    [UnsafeAccessor(UnsafeAccessorKind.Method, Name = "get_CodeBackedListenOptions")]
    private static extern List<ListenOptions> CodeBackedListenOptions(KestrelServerOptions options);
}
