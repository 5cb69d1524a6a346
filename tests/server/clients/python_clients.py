"""What clients of OpenAI's API get from a server: `python python_clients.py URL TOKEN`.

Prints, for each client, its answers to two questions of one conversation; the second answer was streamed.
"""

import json
import sys

QUESTIONS = ("1 + 2?", "Again?")


def messages_of(first, answer):
    return [
        {"role": "user", "content": first},
        {"role": "assistant", "content": answer},
        {"role": "user", "content": QUESTIONS[1]},
    ]


def litellm_chat(url, token):
    import litellm

    options = {"model": "openai/nbagent", "api_base": url, "api_key": token}
    asked = [{"role": "user", "content": QUESTIONS[0]}]
    first = litellm.completion(messages=asked, **options).choices[0].message.content
    pieces = litellm.completion(messages=messages_of(QUESTIONS[0], first), stream=True, **options)
    return [first, "".join(piece.choices[0].delta.content or "" for piece in pieces)]


def litellm_responses(url, token):
    import litellm

    options = {"model": "openai/nbagent", "api_base": url, "api_key": token}
    first = litellm.responses(input=QUESTIONS[0], **options)
    events = litellm.responses(input=QUESTIONS[1], previous_response_id=first.id, stream=True, **options)
    return [first.output_text, "".join(event.delta for event in events if event.type == "response.output_text.delta")]


def llm(url, token):
    from llm.default_plugins.openai_models import Chat

    model = Chat("nbagent", model_name="nbagent", api_base=url, key=token)
    conversation = model.conversation()
    first = conversation.prompt(QUESTIONS[0], stream=False).text()
    return [first, "".join(conversation.prompt(QUESTIONS[1], stream=True))]


def langchain(url, token, **options):
    from langchain_openai import ChatOpenAI

    model = ChatOpenAI(model="nbagent", base_url=url, api_key=token, **options)
    question = ("user", QUESTIONS[0])
    first = model.invoke([question])
    return [first.text, "".join(piece.text for piece in model.stream([question, first, ("user", QUESTIONS[1])]))]


def langchain_responses(url, token):
    return langchain(url, token, use_responses_api=True)


def langchain_stored(url, token):
    return langchain(url, token, use_responses_api=True, use_previous_response_id=True)


if __name__ == "__main__":
    clients = (litellm_chat, litellm_responses, llm, langchain, langchain_responses, langchain_stored)
    print(json.dumps({client.__name__: client(*sys.argv[1:]) for client in clients}))
