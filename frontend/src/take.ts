// Tables as files: what is shown, with numbers as they are.

export interface Cells { titles: string[]; rows: (string | number | null)[][] }

/** One cell of a CSV file. A spreadsheet must not take a name for a formula. */
function csvCell(value: string | number | null): string {
  if (value === null) return "";
  if (typeof value === "number") return String(value);
  const safe = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

export const csvOf = ({ titles, rows }: Cells): string => [titles, ...rows].map((row) => row.map(csvCell).join(",")).join("\r\n") + "\r\n";

export const markdownOf = ({ titles, rows }: Cells): string => [titles, titles.map(() => "---"), ...rows].map((row) => `| ${row.map((cell) => String(cell ?? "").replaceAll("|", "\\|").replaceAll("\n", " ")).join(" | ")} |`).join("\n") + "\n";

/** Let the browser save a text. */
export const save = (name: string, text: string, type: string): void => saveBlob(name, new Blob([text], { type }));

export function saveBlob(name: string, blob: Blob): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** A title as a name for files and addresses. */
export const slug = (title: string): string => title.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "").slice(0, 60) || "table";

export const fileNameOf = (caption: string, ending: string): string => `${slug(caption)}.${ending}`;

/** Put a text where it can be pasted from; browsers allow that only to pages that they trust. */
export async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const field = document.createElement("textarea");
    field.value = text;
    document.body.append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    return done;
  }
}
