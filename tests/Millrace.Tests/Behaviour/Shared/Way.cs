// The ways a request can take through the server: two protocols to come by, two faces of a handler to reach. What does not
// depend on the way is tested once and run over all four.

namespace Millrace.Tests.Behaviour.Shared;

public enum Way
{
    FastCgiToPlain,
    HttpToPlain,
    FastCgiToHosted,
    HttpToHosted,
}
