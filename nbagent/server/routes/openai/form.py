"""What all parts of a request's body have in common."""

from pydantic import BaseModel, ConfigDict


class BodyPart(BaseModel):
    """A part of a body: nothing is converted, as at OpenAI, so that a wrong type is told and not guessed at."""

    model_config = ConfigDict(strict=True)
