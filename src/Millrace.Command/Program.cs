// The command `millrace`. Only the way in; each verb has its file in Verbs/.

using Millrace.Command;
using Millrace.Command.Terminals;

using var console = CommandConsole.OfProcess();
return await MillraceCommand.InvokeAsync(args, console);
