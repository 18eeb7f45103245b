// The addresses `run` chose because nobody named any, and what is to be said of the choice: to a user whose browser would
// meet another program there, and to one whose application could not listen where nobody had asked for.

namespace Millrace.Command.Running;

/// <param name="Place">Where the web server connects.</param>
/// <param name="HttpIsFree">Whether nothing else listens on <see cref="DefaultAddress.Http"/>: a second application is served by its socket alone.</param>
internal sealed record ChosenAddresses(SocketPlace Place, bool HttpIsFree)
{
    private const string FreeHttp = "http://127.0.0.1:0";

    public IReadOnlyList<string> List => HttpIsFree ? [DefaultAddress.Http, Place.Address] : [Place.Address];

    /// <summary>Whether the socket is one that the web server may not open.</summary>
    public bool IsPrivate => Place.Group is null;

    /// <summary>That the usual page for a browser is another program's, and how to get one; null where it is this application's.</summary>
    public string? HttpNotice => HttpIsFree
        ? null
        : $"{DefaultAddress.Http} is another program's (ss -ltnp 'sport = :{new Uri(DefaultAddress.Http).Port}' shows whose). For a browser: --urls '{FreeHttp};{Place.Address}', which takes a free port";

    /// <summary>Why the server could not start, and how to have it listen elsewhere.</summary>
    public string Explain(string refusal) =>
        $"{refusal} Nobody had named an address, so this one was chosen; name others with --urls, such as --urls '{FreeHttp};{Place.Other.Address}'.";
}
