// A consumer of kafkajs, see shown.js.
import kafkajs from 'kafkajs'
import { atEnd, show, wanted } from './shown.js'

const kafka = new kafkajs.Kafka({ brokers: [wanted.bootstrap], logLevel: kafkajs.logLevel.NOTHING })
const consumer = kafka.consumer({
  groupId: wanted.group,
  maxWaitTimeInMs: wanted.maxWaitMs,
  maxBytes: wanted.fetchBytes,
  maxBytesPerPartition: wanted.fetchBytes,
  readUncommitted: !wanted.isCommittedOnly,
})
await consumer.connect()
await consumer.subscribe({ topics: [wanted.topic], fromBeginning: true })
if (wanted.isMember) atEnd(() => consumer.disconnect())
await consumer.run({
  autoCommit: wanted.isMember,
  eachMessage: async ({ message }) => show(message.offset, message.value),
})
