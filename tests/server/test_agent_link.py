"""The agent link, from the phone on one side to the agent's process on the other."""

import pytest

from link import dial, linked_house

pytestmark = pytest.mark.usefixtures("autojump_clock")


async def test_a_text_and_its_reply() -> None:
    """The agent gets a person's text as a turn, and its reply reaches the app under the id in `done`."""
    async with linked_house() as house:
        agent = await dial(house)
        phone = await house.connect(user={"id": "u1", "name": "Anna"})
        await phone.say("m1", "Good morning")
        turn = await agent.expect("turn")
        assert turn == {
            "t": "turn",
            "turn": turn["turn"],
            "device": "phone",
            "session": "mobile:phone",
            "user": {"id": "u1", "name": "Anna"},
            "input": {"type": "text", "id": "m1", "text": "Good morning"},
        }
        done = await agent.ask("reply", "1", turn=turn["turn"], text="Good morning, Anna.")
        message = await phone.expect("message")
        assert message["text"] == "Good morning, Anna."
        assert done == {"t": "done", "id": "1", "message": message["id"]}
        await agent.send({"t": "end", "turn": turn["turn"]})
        await phone.expect("typing", stop=True)
