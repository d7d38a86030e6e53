// node-apn as its documentation uses it; asked and measured as the senders in ../senders are: see task.py.
import { randomBytes, randomUUID } from "node:crypto";

import apn from "@parse/node-apn";

const [port, folder, pushes] = process.argv.slice(2);
const CONCURRENT = 1000;
const WARM_UP = 200;
const provider = new apn.Provider({
  token: { key: `${folder}/AuthKey_LOCALKEY00.p8`, keyId: "LOCALKEY00", teamId: "LOCALTEAM0" },
  address: "127.0.0.1",
  port: Number(port),
  ca: `${folder}/ca.pem`,
});

function notification() {
  return new apn.Notification({
    id: randomUUID(),
    topic: "io.pcf.polkadotapp",
    pushType: "alert",
    priority: 10,
    expiry: 1800003600,
    collapseId: randomBytes(32).toString("hex"),
    alert: { title: "Polkadot App" },
    mutableContent: 1,
    payload: { statement: { data: "00".repeat(250) } },
  });
}

async function send(count) {
  const statuses = {};
  let waiting = count;
  const work = async () => {
    while (waiting-- > 0) {
      const { failed } = await provider.send(notification(), randomBytes(32).toString("hex"));
      const status = failed.length ? (failed[0].status ?? 0) : 200;
      statuses[status] = (statuses[status] ?? 0) + 1;
    }
  };
  await Promise.all(Array.from({ length: CONCURRENT }, work));
  return statuses;
}

await send(WARM_UP);
const [wall, cpu] = [performance.now(), process.cpuUsage()];
const statuses = await send(Number(pushes));
const seconds = (performance.now() - wall) / 1000;
const { user, system } = process.cpuUsage(cpu);
console.log(
  JSON.stringify({ pushes_per_second: pushes / seconds, cpu_us: (user + system) / pushes, statuses }),
);
await provider.shutdown();
