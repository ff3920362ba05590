// Makes ../src/page/page.html of src/: one file with style, script and the licences of the libraries in it.
// `--check` says whether the committed file is what this makes.

import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import path from "node:path";

import { build } from "esbuild";

const here = path.dirname(fileURLToPath(import.meta.url));
const read = (...names) => readFileSync(path.join(here, ...names), "utf8");

const bundled = await build({
  entryPoints: [path.join(here, "src/main.js")],
  bundle: true,
  minify: true,
  format: "esm",
  target: ["es2022"],
  charset: "utf8",
  legalComments: "none",
  metafile: true,
  write: false,
});
const script = bundled.outputFiles[0].text;
const style = (await build({ entryPoints: [path.join(here, "src/page.css")], minify: true, write: false })).outputFiles[0].text;

// what went in, by the files that esbuild read: each with its licence in full
const packages = new Set();
for (const file of Object.keys(bundled.metafile.inputs)) {
  const found = file.match(/node_modules\/((?:@[^/]+\/)?[^/]+)\//g);
  if (found) packages.add(found.at(-1).slice("node_modules/".length, -1));
}
const ALLOWED = ["MIT", "ISC", "BSD-2-Clause", "BSD-3-Clause", "Apache-2.0"];
const notices = [...packages].sort().map((name) => {
  const manifest = JSON.parse(read("node_modules", name, "package.json"));
  if (!ALLOWED.includes(manifest.license)) throw new Error(`${name}: licence ${manifest.license} is not among ${ALLOWED.join(", ")}`);
  let words = "";
  for (const file of ["LICENSE", "LICENSE.md", "LICENSE.txt", "license", "License"]) {
    try {
      words = read("node_modules", name, file);
      break;
    } catch {
      // the next name
    }
  }
  return `${name} ${manifest.version} (${manifest.license})\n\n${words.trim()}\n`;
});

const text = (value) => value.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
if (/<\/script/i.test(script) || /<!--/.test(script)) throw new Error("the script would end its element");
const page = read("src/page.html")
  .replace("/*STYLE*/", () => style.trim())
  .replace("<!--NOTICES-->", () => text(notices.join("\n")))
  .replace("<!--SCRIPT-->", () => script.trim());

const place = path.join(here, "../src/page/page.html");
if (process.argv.includes("--check")) {
  if (readFileSync(place, "utf8") !== page) {
    console.error("apps/cli/src/page/page.html is not what apps/cli/page makes: run `npm ci && npm run build` in apps/cli/page");
    process.exit(1);
  }
} else {
  writeFileSync(place, page);
  console.log(`${place}: ${page.length} characters, ${packages.size} libraries`);
}
