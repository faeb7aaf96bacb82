// Loaded before a Node server that can only be told a port: makes it listen on loopback, at a free port that it prints.
"use strict";
const { Server } = require("node:net");

const listen = Server.prototype.listen;
Server.prototype.listen = function (...given) {
  const ready = given.find((argument) => typeof argument === "function");
  this.once("listening", () => console.log(`http://127.0.0.1:${this.address().port}`));
  return listen.call(this, { host: "127.0.0.1", port: 0 }, ready);
};
