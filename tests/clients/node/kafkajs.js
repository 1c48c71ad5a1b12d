// A producer of kafkajs: BOOTSTRAP TOPIC plain|idempotent|transactional [PARTITIONS]. The records of a wave take turns.
// Input and output are those of tests/clients/go/waves.
import { createInterface } from 'node:readline'
import kafkajs from 'kafkajs'

const [bootstrap, topic, kind, partitions = 1] = process.argv.slice(2)
const kafka = new kafkajs.Kafka({ brokers: [bootstrap], logLevel: kafkajs.logLevel.NOTHING })
const producer = kafka.producer({
  idempotent: kind !== 'plain',
  createPartitioner: kafkajs.Partitioners.DefaultPartitioner,
  ...(kind === 'transactional' && { transactionalId: topic, maxInFlightRequests: 1 }),
})

const messageOf = ({ value, isGood }, index) => ({
  partition: index % partitions,
  value,
  key: isGood ? 'k' : null,
  headers: isGood ? { h: '1' } : {},
})

// One call is one batch, and has one result.
async function send(wave) {
  const transaction = kind === 'transactional' ? await producer.transaction() : null
  const messages = wave.map(messageOf)
  try {
    await (transaction ?? producer).send({ topic, acks: -1, messages })
    await transaction?.commit()
    return null
  } catch (error) {
    if (transaction?.isActive()) await transaction.abort()
    return error
  }
}

await producer.connect()
let wave = []
for await (const line of createInterface({ input: process.stdin })) {
  if (line) {
    wave.push({ value: line.slice(line.indexOf(' ') + 1), isGood: line.startsWith('good ') })
    continue
  }
  const error = await send(wave)
  const name = error ? (error.type ?? error.name) : ''
  for (const { value } of wave) console.log(`${value}\t${name}\t${error?.message ?? ''}`)
  console.log(kind === 'transactional' ? name : '')
  wave = []
}
await producer.disconnect()
