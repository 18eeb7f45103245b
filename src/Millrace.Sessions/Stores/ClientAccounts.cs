// How much each network (/24, /48) takes with sessions that have been used once only. There are no more accounts than such sessions, and their memory is counted as well.

namespace Millrace.Sessions.Stores;

internal sealed class ClientAccount(ClientPrefix client)
{
    public const int Overhead = 112;

    public ClientPrefix Client { get; } = client;

    public KeptSession? Newest;
    public KeptSession? Oldest;
    public long Bytes;
    public int Count;
}

internal sealed class ClientAccounts(long bytesMax)
{
    private readonly Dictionary<ClientPrefix, ClientAccount> _accounts = [];

    /// <summary>What the accounts themselves take.</summary>
    public long Bytes => (long)_accounts.Count * ClientAccount.Overhead;

    public bool IsOver(KeptSession session) => session.Client is { } client && client.Bytes > bytesMax;

    public void Add(KeptSession session, ClientPrefix prefix)
    {
        if (prefix.IsNone)
        {
            return;
        }
        if (!_accounts.TryGetValue(prefix, out ClientAccount? account))
        {
            account = new ClientAccount(prefix);
            _accounts.Add(prefix, account);
        }
        session.Client = account;
        session.OlderOfClient = account.Newest;
        if (account.Newest is { } newest)
        {
            newest.NewerOfClient = session;
        }
        else
        {
            account.Oldest = session;
        }
        account.Newest = session;
        account.Bytes += session.Bytes;
        account.Count++;
    }

    /// <summary>Its values are so many bytes longer.</summary>
    public static void Grow(KeptSession session, int bytes)
    {
        if (session.Client is { } account)
        {
            account.Bytes += bytes;
        }
    }

    public void Remove(KeptSession session)
    {
        if (session.Client is not { } account)
        {
            return;
        }
        if (session.NewerOfClient is { } newer)
        {
            newer.OlderOfClient = session.OlderOfClient;
        }
        else
        {
            account.Newest = session.OlderOfClient;
        }
        if (session.OlderOfClient is { } older)
        {
            older.NewerOfClient = session.NewerOfClient;
        }
        else
        {
            account.Oldest = session.NewerOfClient;
        }
        session.NewerOfClient = session.OlderOfClient = null;
        session.Client = null;
        account.Bytes -= session.Bytes;
        if (--account.Count == 0)
        {
            _accounts.Remove(account.Client);
        }
    }

    /// <summary>Those that take most, for somebody who wants to know where a flood comes from.</summary>
    public (ClientPrefix Client, int Sessions)[] Busiest(int count) =>
        [.. _accounts.Values.OrderByDescending(static account => account.Count).Take(count).Select(static account => (account.Client, account.Count))];
}
