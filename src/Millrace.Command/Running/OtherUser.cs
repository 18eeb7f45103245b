// The user whom root has an application run as. The application's folder may be that user's, who can fill it with links to what he may not read, or with
// projects that do what he likes when they are built: so root reads with his rights what lies there, and builds it as him.

using Millrace.Listeners;
using Millrace.Platform;

namespace Millrace.Command.Running;

internal sealed class OtherUser
{
    private readonly Account _account;

    private OtherUser(string name, Account account)
    {
        Name = name;
        _account = account;
        Rights = new FileRights(account.User, account.Group, Posix.GroupsOf(name, account.Group));
    }

    public string Name { get; }

    /// <summary>What he may.</summary>
    public FileRights Rights { get; }

    /// <summary>The user of this name; null where none is named, it is root, or this process is not root and has no other rights than its own.</summary>
    /// <exception cref="MillraceStartException">There is no such user.</exception>
    public static OtherUser? Find(string? name) =>
        name is not null && SystemCalls.GetEffectiveUser() == 0 && Accounts.Find(name) is { User: not 0 } account ? new OtherUser(name, account) : null;

    /// <summary>Looks at files with the rights of that user, or of this process where there is none.</summary>
    /// <param name="user">Whose.</param>
    /// <param name="read">Does all of it on this thread, and starts no other: that one would keep these rights.</param>
    /// <exception cref="CommandFailure">This process may not take them.</exception>
    public static T Read<T>(OtherUser? user, Func<T> read)
    {
        if (user is null)
        {
            return read();
        }
        var own = Posix.RightsOfThread();
        bool isTaken = Posix.TrySetRightsOfThread(user.Rights);
        try
        {
            return isTaken ? read()
                : throw new CommandFailure(ExitCode.Failure, $"The application is user {user.Name}'s to read, and this process may not take that user's rights. Leave it CAP_SETUID and CAP_SETGID, or \"user\" out.");
        }
        finally
        {
            if (!Posix.TrySetRightsOfThread(own) && isTaken)
            {
                Environment.FailFast("A thread of root's has not got its rights back.");
            }
        }
    }

    /// <summary>What the environment of that user's processes says of him.</summary>
    public void Describe(IDictionary<string, string?> environment)
    {
        environment["HOME"] = _account.Home.Length > 0 ? _account.Home : "/";
        environment["USER"] = Name;
        environment["LOGNAME"] = Name;
    }
}
