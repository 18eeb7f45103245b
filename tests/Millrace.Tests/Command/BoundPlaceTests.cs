// Which addresses cannot be listened on beside each other.

using Millrace.Command.Serving;
using Millrace.Listeners;

namespace Millrace.Tests.Command;

public sealed class BoundPlaceTests
{
    [Theory]
    [InlineData("http://127.0.0.1:5000", "fastcgi://127.0.0.1:5000", true)]
    [InlineData("http://127.0.0.1:5000", "http://127.0.0.1:5001", false)]
    [InlineData("http://127.0.0.1:0", "http://127.0.0.1:0", false)]
    [InlineData("http://127.0.0.1:5000", "http://127.0.0.2:5000", false)]
    [InlineData("http://127.0.0.1:5000", "http://localhost:5000", true)]
    [InlineData("http://[::1]:5000", "http://localhost:5000", true)]
    [InlineData("http://127.0.0.2:5000", "http://localhost:5000", false)]
    [InlineData("http://*:5000", "fastcgi://127.0.0.1:5000", true)]
    [InlineData("http://+:5000", "http://[::1]:5000", true)]
    [InlineData("http://[::]:5000", "http://0.0.0.0:5000", true)]
    [InlineData("http://0.0.0.0:5000", "http://localhost:5000", true)]
    [InlineData("http://0.0.0.0:5000", "http://[::1]:5000", false)]
    [InlineData("http://*:5000", "http://*:5001", false)]
    [InlineData("fastcgi://unix:/run/a.sock", "http://unix:/run/../run/a.sock?mode=600", true)]
    [InlineData("fastcgi://unix:/run/a.sock", "fastcgi://unix:/run/b.sock", false)]
    [InlineData("fastcgi://unix:/run/a.sock", "http://*:5000", false)]
    public void Addresses_are_one_place_or_two_whatever_is_spoken_there(string one, string other, bool isTaken)
    {
        Assert.Equal(isTaken, BoundPlace.IsTaken(ListenAddress.Parse(one), ListenAddress.Parse(other)));
        Assert.Equal(isTaken, BoundPlace.IsTaken(ListenAddress.Parse(other), ListenAddress.Parse(one)));
    }

    // As /var/run leads to /run.
    [Theory]
    [InlineData("run/a.sock", "link/a.sock", true)]
    [InlineData("run/a.sock", "link/b.sock", false)]
    [InlineData("run/a.sock", "other/a.sock", false)]
    [InlineData("run/a.sock", "none/a.sock", false)]
    public void A_folder_that_a_link_leads_to_is_one_place(string one, string other, bool isOne)
    {
        string folder = Directory.CreateTempSubdirectory("millrace-place-").FullName;
        try
        {
            _ = Directory.CreateDirectory(Path.Combine(folder, "run"));
            _ = Directory.CreateDirectory(Path.Combine(folder, "other"));
            _ = Directory.CreateSymbolicLink(Path.Combine(folder, "link"), "run");
            Assert.Equal(isOne, BoundPlace.IsOne(ListenAddress.Parse($"http://unix:{folder}/{one}"), ListenAddress.Parse($"fastcgi://unix:{folder}/{other}")));
        }
        finally
        {
            Directory.Delete(folder, recursive: true);
        }
    }
}
