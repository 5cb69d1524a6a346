"""raw_httpx, but the batch has one client (one connection) per worker: no shared pool.

httpcore's shared async pool rescans all its connections and waiting requests at each
request; this shows what a batch costs without that. One SSL context serves all.
"""

import asyncio
import ssl

import httpx

from . import raw_httpx


class Peer(raw_httpx.Peer):
    def batch(self, model, prompts, concurrency):
        def clients():
            context = ssl.create_default_context()
            return [httpx.AsyncClient(verify=context, timeout=600, trust_env=False) for _ in range(concurrency)]

        texts = [None] * len(prompts)
        todo = iter(enumerate(prompts))

        async def worker(client):
            for i, prompt in todo:
                reply = await client.post(
                    self.to, json={"model": model, "messages": [{"role": "user", "content": prompt}]}
                )
                texts[i] = reply.json()["choices"][0]["message"]["content"]

        async def main():
            await asyncio.gather(*map(worker, self.kept("clients", clients)))

        self.run(main())
        return texts
