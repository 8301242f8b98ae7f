"""Sources for queues: RabbitMQ, Redis and Kafka, each by the length of queues that a person names.

Knows which queue is whose, and that one that fails affects no other; each module knows one kind of server.
"""
