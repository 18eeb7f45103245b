namespace Millrace.Command.Verbs;
internal static class GetVerb { public static System.CommandLine.Command Create(Terminals.CommandConsole console) => new("get", "Get."); }
