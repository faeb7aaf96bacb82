#!/usr/bin/env node
// Runs the program of the platform's own package, which npm has installed beside this one.
"use strict";

const { spawn } = require("node:child_process");
const os = require("node:os");

const platform = `${process.platform}-${process.arch}`;
const carrier = `salon-gateway-${platform}`;
let program;
try {
  program = require.resolve(`${carrier}/bin/salon`);
} catch {
  console.error(`error: there is no program for ${platform} here\n\nhint: install the package \`${carrier}\` as well, of the same version`);
  process.exit(1);
}

// Signals go to the program, which ends in its own time; this process then ends as the program did.
const child = spawn(program, process.argv.slice(2), { stdio: "inherit" });
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
  // A terminal sends SIGINT to both; a second one would cut the end short.
  process.on(signal, () => {
    if (signal !== "SIGINT" || !process.stdin.isTTY) child.kill(signal);
  });
}
child.on("error", (error) => {
  console.error(`error: \`${program}\` could not be started: ${error.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => process.exit(signal ? 128 + os.constants.signals[signal] : code));
