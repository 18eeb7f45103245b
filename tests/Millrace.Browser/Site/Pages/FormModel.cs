// A page with a form: antiforgery, validation, an uploaded file, the answer to it shown on the same page.

using System.ComponentModel.DataAnnotations;
using System.Security.Cryptography;
using Microsoft.AspNetCore.Mvc;
using Microsoft.AspNetCore.Mvc.RazorPages;

namespace Millrace.Browser.Site.Pages;

public sealed class FormModel : PageModel
{
    [BindProperty]
    [Required]
    [StringLength(20)]
    public string Name { get; set; } = "";

    [BindProperty]
    [Range(1, 100)]
    public int Grain { get; set; } = 1;

    [BindProperty]
    public IFormFile? Upload { get; set; }

    public string? Result { get; private set; }

    public async Task OnPostAsync()
    {
        if (!ModelState.IsValid)
        {
            return;
        }

        Result = $"{Name} brings {Grain}";
        if (Upload is not null)
        {
            await using Stream content = Upload.OpenReadStream();
            Result += $" and {Upload.FileName} of {Upload.Length} bytes, {Convert.ToHexStringLower(await SHA256.HashDataAsync(content))}";
        }
    }
}
