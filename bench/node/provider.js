// A second stand-in for APNs, by Node's own HTTP/2: each push is answered with 200 and its `apns-id`.
//
//     node provider.js FOLDER     # prints its port; FOLDER holds the certificate: see local/tls.py
import { readFileSync } from "node:fs";
import { createSecureServer } from "node:http2";

// As ../provider.py has them: aioapns fails where a connection's window is full.
const STREAMS = 1000;
const WINDOW = 1 << 24;

const [folder] = process.argv.slice(2);
const pem = readFileSync(`${folder}/localhost.pem`);
const settings = { maxConcurrentStreams: STREAMS, initialWindowSize: WINDOW };
const server = createSecureServer({ key: pem, cert: pem, settings });

server.on("session", (session) => session.setLocalWindowSize(WINDOW));
server.on("stream", (stream, headers) => {
  stream.on("end", () => answer(stream, headers["apns-id"]));
  stream.resume();
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));

function answer(stream, id) {
  // A client may have left meanwhile.
  if (!stream.destroyed) stream.respond({ ":status": 200, "apns-id": id }, { endStream: true });
}
