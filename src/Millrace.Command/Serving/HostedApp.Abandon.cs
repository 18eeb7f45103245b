// Deployments that are given up for something else, which may not come about.

namespace Millrace.Command.Serving;

internal sealed partial class HostedApp
{
    private Task<string?> DoAsync(Func<Task<string?>> action) => _turns.DoAsync(action);

    private Task<string?> DoInsteadAsync(Func<Task<string?>> action) => _turns.DoInsteadAsync(_ => action());

    /// <summary>Has what is on its way given up, or about to be; ends when it has been.</summary>
    /// <returns>Which deployment that was; 0: none.</returns>
    public async Task<int> GiveUpAsync()
    {
        int its = 0;
        await _turns.DoInsteadAsync(givenUp =>
        {
            its = givenUp;
            return Task.FromResult<string?>(null);
        });
        return its;
    }

    /// <summary>Begins a deployment anew that was given up for something that has not come about, unless there has been another since. The answer is why it does not serve, or null.</summary>
    public Task<string?> BeginGivenUpAsync(int deployment) =>
        DoAsync(async () => _deployments == deployment && State is AppState.Waiting or AppState.Serving ? await BeginOnceAsync() : null);
}
