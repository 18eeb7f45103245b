// The two HTML pages of the sample. No script, no style sheet, no outside resource.

namespace Hello;

internal static class Pages
{
    public const string Html = "text/html; charset=utf-8";

    public const string Home = """
        <!DOCTYPE html>
        <html lang="en">
        <head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Hello</title></head>
        <body>
        <h1>Hello</h1>
        <ul>
        <li><a href="hello">hello</a>: a short text</li>
        <li><a href="upload">upload</a>: send a file, get its size and SHA-256</li>
        <li><a href="stream">stream</a>: ten lines, one every 300 ms</li>
        <li><a href="block">block</a>: a page that sleeps 100 ms on its thread</li>
        </ul>
        </body>
        </html>

        """;

    public const string UploadForm = """
        <!DOCTYPE html>
        <html lang="en">
        <head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Upload</title></head>
        <body>
        <h1>Upload</h1>
        <form method="post" enctype="multipart/form-data">
        <p><label>File: <input type="file" name="file" required></label> <button>Send</button></p>
        </form>
        <p><a href=".">Back</a></p>
        </body>
        </html>

        """;
}
