"""The clients. They know nothing of mixtailor, except those that attack."""

from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from digits import task


def byzantine(message: Message, context: Context, call_next):
    """A mod: clients whose partition is below `byzantine` send what an attack makes of their update."""
    config = context.run_config
    if config["attack"] == "none" or config["collude"] or context.node_config["partition-id"] >= config["byzantine"]:
        return call_next(message, context)

    from mixtailor.attacks import registry
    from mixtailor.engines.flower import byzantine_mod

    return byzantine_mod(registry.make(config["attack"]))(message, context, call_next)


app = ClientApp(mods=[byzantine])


@app.train()
def train(message: Message, context: Context) -> Message:
    weights = {name: array.numpy() for name, array in message.content["arrays"].items()}
    images, labels = task.data(context.node_config["partition-id"], context.node_config["num-partitions"])
    weights, loss = task.train(
        weights,
        images,
        labels,
        steps=context.run_config["local-steps"],
        learning_rate=context.run_config["learning-rate"],
    )
    content = RecordDict(
        {
            "arrays": ArrayRecord({name: Array(values) for name, values in weights.items()}),
            "metrics": MetricRecord({"loss": loss, "num-examples": len(labels)}),
        }
    )
    return Message(content, reply_to=message)
