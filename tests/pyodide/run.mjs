// node run.mjs PYODIDE SCRIPT WHEEL...: run a Python script in Pyodide, with the wheels unpacked.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [pyodideFolder, script, ...wheels] = process.argv.slice(2);
const { loadPyodide } = await import(pathToFileURL(`${pyodideFolder}/pyodide.mjs`));
const pyodide = await loadPyodide();
for (const wheel of wheels) {
  pyodide.unpackArchive(new Uint8Array(readFileSync(wheel)), "wheel");
}
try {
  await pyodide.runPythonAsync(readFileSync(script, "utf8"));
} catch (error) {
  console.error(error.message);
  process.exitCode = 1;
}
process.exit(); // the timers of time limits would keep it for minutes
