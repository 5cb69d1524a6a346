// A chat of AG-UI's own client with a server: `node ag_ui_client.cjs '{"url": …, "token": …, "steps": […]}'`.
// A step says something, or answers the interrupts that are open. It prints, after each step, the types of the events,
// and what the client shows. Its verification of the events is on, as in every front end.
"use strict"
const {HttpAgent} = require("@ag-ui/client")

async function chat({url, token, steps}) {
  const agent = new HttpAgent({url, threadId: "thread", headers: {Authorization: `Bearer ${token}`}})
  const told = []
  for (const {say, decision, tools} of steps) {
    const events = []
    if (say) agent.addMessage({id: crypto.randomUUID(), role: "user", content: say})
    const resume = decision && agent.pendingInterrupts.map(({id}) => (
      {interruptId: id, status: "resolved", payload: decision}))
    const onEvent = ({event}) => { events.push(event.type) }
    let error = null, result = null
    try {
      result = (await agent.runAgent({tools, resume}, {onEvent})).result
    } catch (failure) {
      error = String(failure)
    }
    const {messages, state, pendingInterrupts} = agent
    told.push(structuredClone({error, result, events, messages, state, pendingInterrupts}))
  }
  return told
}

chat(JSON.parse(process.argv[2])).then(told => console.log(JSON.stringify(told)))
