// What clients of npm get from a server: `node npm_clients.mjs URL TOKEN`. Prints, for each client, its answers to two
// questions of one conversation; the second answer was streamed.
import {createRequire} from "node:module"
const require = createRequire(process.env.NODE_PATH + "/")  // import does not look there
const {OpenAI} = require("openai")
const {createOpenAI} = require("@ai-sdk/openai")
const {generateText, streamText} = require("ai")

const [, , baseURL, apiKey] = process.argv
const model = "nbagent"
const user = content => ({role: "user", content})
const first = user("1 + 2?"), again = user("Again?")

async function joined(stream, text) {
  let whole = ""
  for await (const piece of stream) whole += text(piece) ?? ""
  return whole
}

async function openai_chat() {
  const client = new OpenAI({baseURL, apiKey})
  const {choices: [{message}]} = await client.chat.completions.create({model, messages: [first]})
  const stream = await client.chat.completions.create({model, messages: [first, message, again], stream: true})
  return [message.content, await joined(stream, chunk => chunk.choices[0]?.delta.content)]
}

async function openai_responses() {
  const client = new OpenAI({baseURL, apiKey})
  const {id, output_text} = await client.responses.create({model, input: first.content})
  const stream = client.responses.stream({model, input: again.content, previous_response_id: id})
  return [output_text, (await stream.finalResponse()).output_text]
}

// Its default: earlier answers go back as items that the server keeps.
async function vercel(chosen, providerOptions) {
  const made = await generateText({model: chosen, messages: [first], providerOptions})
  const {textStream, totalUsage} = streamText({
    model: chosen, messages: [first, ...made.response.messages, again], providerOptions, onError: ({error}) => { throw error },
  })
  const text = await joined(textStream, piece => piece)
  await totalUsage
  return [made.text, text]
}

const provider = createOpenAI({baseURL, apiKey})
const clients = {
  openai_chat, openai_responses,
  vercel_chat: () => vercel(provider.chat(model)),
  vercel_responses: () => vercel(provider(model)),
  vercel_unstored: () => vercel(provider(model), {openai: {store: false}}),
}
const answers = {}
for (const [name, client] of Object.entries(clients)) answers[name] = await client()
console.log(JSON.stringify(answers))
