// A hosting start-up of the app's own, which ASP.NET Core runs unless it is told not to.

namespace HostKinds;

public sealed class OwnStartup : IHostingStartup
{
    public static bool HasRun { get; private set; }

    public void Configure(IWebHostBuilder builder)
    {
        HasRun = true;
        builder.ConfigureKestrel(kestrel => kestrel.AllowSynchronousIO = true);
    }
}
