// The broadcast server anybody would write with npm's `ws`: every text message goes to all sockets of its topic.
const { WebSocketServer } = require("ws");

const rooms = new Map();
const server = new WebSocketServer({ host: "127.0.0.1", port: Number(process.argv[2]), perMessageDeflate: false, backlog: 4096 });
server.on("connection", (socket, request) => {
  const topic = new URL(request.url, "http://localhost").searchParams.get("topic");
  const room = rooms.get(topic) ?? new Set();
  rooms.set(topic, room.add(socket));
  socket.on("message", (message) => {
    for (const member of room) member.send(message, { binary: false });
  });
  socket.on("close", () => room.delete(socket));
  socket.on("error", () => room.delete(socket));
});
