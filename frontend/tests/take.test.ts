import { expect, test } from "vitest";
import { csvOf, markdownOf, slug } from "../src/take";

test("a spreadsheet does not take a name for a formula", () => {
  const cells = { titles: ["Kernel", "Total"], rows: [["=HYPERLINK(1)", 1.5], ['a "quoted", name', null], ["-x", -3]] };
  expect(csvOf(cells)).toBe('Kernel,Total\r\n\'=HYPERLINK(1),1.5\r\n"a ""quoted"", name",\r\n\'-x,-3\r\n');
});

test("a bar in a name does not end a cell of Markdown", () => expect(markdownOf({ titles: ["a"], rows: [["x|y\nz"]] })).toBe("| a |\n| --- |\n| x\\|y z |\n"));

test("names for files and addresses", () => expect([slug("Kernels of decode (b200)"), slug("—"), slug("x".repeat(90))]).toEqual(["kernels-of-decode-b200", "table", "x".repeat(60)]));
