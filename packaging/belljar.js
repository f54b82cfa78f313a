#!/usr/bin/env node
// Becomes the program in the package of this platform. A Node.js without process.execve starts it, and passes on signals
// and its exit code.
"use strict";

const platform = `${process.platform}-${process.arch}`;
const name = Object.keys(require("./package.json").optionalDependencies).find((name) => name.endsWith(`-${platform}`));
let program;
try {
  program = require.resolve(`${name}/belljar`);
} catch {
  console.error(
    name
      ? `belljar: the package ${name} is missing; install belljar again, with optional packages`
      : `belljar: there is no package for ${platform}`,
  );
  process.exit(1);
}
const argv = process.argv.slice(2);
if (process.execve) process.execve(program, [program, ...argv], process.env);

const child = require("node:child_process").spawn(program, argv, { stdio: "inherit" });
for (const signal of ["SIGHUP", "SIGINT", "SIGTERM"]) process.on(signal, () => child.kill(signal));
child.on("error", (error) => {
  console.error(`belljar: ${program} cannot be started: ${error.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => {
  if (!signal) process.exit(code);
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
});
