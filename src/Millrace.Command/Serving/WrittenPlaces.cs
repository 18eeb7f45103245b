// Where the values of a file stand, for what only the machine tells of them: that what they name is not there (CheckVerb).

namespace Millrace.Command.Serving;

internal sealed class WrittenPlaces
{
    private readonly Dictionary<(string Name, string Member), Place> _places = [];

    private WrittenPlaces()
    {
    }

    public static WrittenPlaces None { get; } = new();

    /// <param name="items">Applications and pools.</param>
    /// <param name="shared">The shared addresses; null where there are none.</param>
    public static WrittenPlaces Of(IEnumerable<PlacedValue> items, PlacedValue? shared)
    {
        var written = new WrittenPlaces();
        foreach (var item in items)
        {
            written.Add(item.Members.FirstOrDefault(static member => member.Name == "name")?.Value.Text ?? "", item.Members);
        }
        foreach (var member in shared?.Members ?? [])
        {
            written.Add(member.Name, member.Value.Members);
        }
        return written;
    }

    /// <summary>The place of a member of what has this name; of one that is not written, and has its default, that of the name.</summary>
    public Place Of(string name, string member) =>
        _places.TryGetValue((name, member), out var place) || _places.TryGetValue((name, "name"), out place) ? place : new Place(1, 1);

    private void Add(string name, IEnumerable<PlacedMember> members)
    {
        foreach (var member in members)
        {
            _places.TryAdd((name, member.Name), member.Value.Place);
        }
    }
}
