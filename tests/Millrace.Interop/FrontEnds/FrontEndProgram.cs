// What one web server differs in from the next: its program, its template and the words in it, its arguments, its log.
// One derived class per web server, beside a folder of its name with the templates. Starting it is FrontEndServer's.
namespace Millrace.Interop.FrontEnds;

public abstract class FrontEndProgram
{
    /// <summary>As the table of front ends calls it.</summary>
    public abstract string Title { get; }

    /// <summary>The Debian package that holds it.</summary>
    public abstract string Package { get; }

    /// <summary>The full paths it may be found at.</summary>
    public abstract IReadOnlyList<string> Places { get; }

    /// <summary>The name of the log file in the front end's directory; null where it logs to its standard error.</summary>
    public virtual string? LogFile => null;

    /// <summary>Whether it connects to the application as a user other than the one that runs the tests.</summary>
    public virtual bool IsAnotherUser => false;

    /// <summary>The template of its configuration, relative to the folder FrontEnds: <c>nginx/http.conf</c>.</summary>
    public abstract string TemplateFor(Upstream upstream);

    /// <summary>
    /// Fills the words between @ signs of the template. @DIR@, @BUFFERED_PORT@ and @STREAMING_PORT@ are filled in already.
    /// </summary>
    public abstract void FillIn(IDictionary<string, string> words, Upstream upstream);

    /// <summary>The command line that runs it in the foreground.</summary>
    /// <param name="directory">Its own directory, which exists.</param>
    /// <param name="configuration">The full path of the configuration, its template filled in.</param>
    public abstract IReadOnlyList<string> Arguments(string directory, string configuration);

    /// <summary>Variables of its environment, besides those of the tests.</summary>
    public virtual IReadOnlyDictionary<string, string> Environment(string directory) => new Dictionary<string, string>();

    /// <summary>Makes what it needs in its directory besides the configuration.</summary>
    public virtual void Prepare(string directory)
    {
    }

    /// <summary>Whether a line of the log is of level error or above.</summary>
    public virtual bool IsError(string line) => true;

    /// <summary>How it puts a complaint into words: one of these texts is in each line about it. Empty: it says nothing.</summary>
    public abstract IReadOnlyList<string> TextsOf(Complaint complaint);
}

/// <summary>What a test may make a front end log at level error or above.</summary>
public enum Complaint
{
    /// <summary>The application broke off a response that it had begun.</summary>
    ResponseCut,

    /// <summary>The client went away before its request or its response was over.</summary>
    ClientGone,
}
