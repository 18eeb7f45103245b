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
}
