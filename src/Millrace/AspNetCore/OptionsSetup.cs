// Where the options of a hosted server come from, in this order: the section "Millrace", the application's code, what the
// application says to Kestrel for those that neither has set. Then every range is checked, and the start stops with all
// sentences there are.

using Microsoft.Extensions.Configuration;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Options;

namespace Millrace.AspNetCore;

internal sealed class OptionsSetup(IServiceProvider services, KestrelSettings kestrel)
    : IConfigureOptions<MillraceOptions>, IPostConfigureOptions<MillraceOptions>, IValidateOptions<MillraceOptions>
{
    private IConfiguration? Section => services.GetService<IConfiguration>()?.GetSection(MillraceOptions.SectionName);

    public void Configure(MillraceOptions options)
    {
        if (Section is { } section)
        {
            _ = OptionsSection.Read(section, options);
        }
    }

    public void PostConfigure(string? name, MillraceOptions options) => kestrel.Apply(options);

    public ValidateOptionsResult Validate(string? name, MillraceOptions options)
    {
        string[] faults =
        [
            .. Section is { } section ? OptionsSection.Read(section, new MillraceOptions()) : [],
            .. options.Ranges().Where(static range => !range.Holds).Select(static range => range.Fault),
        ];
        return faults.Length == 0 ? ValidateOptionsResult.Success : ValidateOptionsResult.Fail(faults);
    }

    /// <summary>Keys of the section that name no option, each with the option that is spelt most like it.</summary>
    public IEnumerable<(string Key, string Nearest)> UnknownKeys() => Section is { } section ? OptionsSection.Unknown(section) : [];
}
