// The Connect client that XMTP's apps use, on request: reads one JSON object from standard input,
//
//   {"schema": "<base64 of a FileDescriptorSet>", "baseUrl": "http://…", "headers": {…},
//    "protocol": "connect+json" | "connect+proto" | "grpc-web", "calls": [{"method": "Subscribe", "request": {…}}]}
//
// and writes a JSON array with the answer to each call: {"response": {…}}, or {"code": "not_found", "message": "…"}.
import { text } from "node:stream/consumers";
import { createFileRegistry, fromBinary, fromJson, toJson } from "@bufbuild/protobuf";
import { FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { createConnectTransport, createGrpcWebTransport } from "@connectrpc/connect-node";

const SERVICE = "notifications.v1.Notifications";
const TRANSPORTS = {
  "connect+json": (options) => createConnectTransport({ ...options, useBinaryFormat: false }),
  "connect+proto": (options) => createConnectTransport({ ...options, useBinaryFormat: true }),
  "grpc-web": createGrpcWebTransport,
};

const given = JSON.parse(await text(process.stdin));
const files = fromBinary(FileDescriptorSetSchema, Buffer.from(given.schema, "base64"));
const service = createFileRegistry(files).getService(SERVICE);
const transport = TRANSPORTS[given.protocol]({
  baseUrl: given.baseUrl,
  httpVersion: "1.1",
  // Here rather than at each call, since `Host` is among them.
  nodeOptions: { headers: given.headers },
});
const client = createClient(service, transport);

async function call({ method: name, request }) {
  const method = service.methods.find((one) => one.name === name);
  try {
    const response = await client[method.localName](fromJson(method.input, request));
    return { response: toJson(method.output, response) };
  } catch (error) {
    if (!(error instanceof ConnectError)) throw error;
    // As the code is spelled on the wire: `InvalidArgument` is `invalid_argument`.
    const code = Code[error.code].replaceAll(/(?<!^)[A-Z]/g, (letter) => `_${letter}`).toLowerCase();
    return { code, message: error.rawMessage };
  }
}

const answers = [];
for (const one of given.calls) answers.push(await call(one));
console.log(JSON.stringify(answers));
