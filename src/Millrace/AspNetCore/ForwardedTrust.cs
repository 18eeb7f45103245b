// Whom the application believes when he says X-Forwarded-For and -Proto. Over HTTP "whoever connects" is the web server, and it sets them; over
// FastCGI the address of a connection is the client's, and these headers are his own.

using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.HttpOverrides;
using Microsoft.Extensions.Options;

namespace Millrace.AspNetCore;

internal sealed class ForwardedTrust(IOptions<ForwardedHeadersOptions> options)
{
    /// <summary>Whether anybody is believed: no address is required of him, as ASPNETCORE_FORWARDEDHEADERS_ENABLED has it, or every address will do.</summary>
    public bool IsInAnybody
    {
        get
        {
            ForwardedHeadersOptions said;
            try
            {
                said = options.Value;
            }
            catch (Exception)
            {
                return false;       // thrown by the application's code, and thrown again where its middleware asks
            }

            return said.ForwardedHeaders != ForwardedHeaders.None
                && ((said.KnownProxies.Count == 0 && said.KnownIPNetworks.Count == 0) || said.KnownIPNetworks.Any(static network => network.PrefixLength == 0));
        }
    }
}
