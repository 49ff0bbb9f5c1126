"""The broker under test and the clients. `--broker kafka` runs the same tests on Apache Kafka, which says what is right."""

import itertools
import uuid

import pytest

import agents
import wire
from brokers import KINDS
from jobs import Job
from waiting import wait


def pytest_addoption(parser):
    parser.addoption("--broker", choices=sorted(KINDS), default="tidemill", help="what is tested")
    parser.addoption("--crash-seconds", type=float, default=25, help="how long the node is killed again and again")
    parser.addoption("--soak-seconds", type=float, default=20, help="how long nothing happens to the node")
    parser.addoption("--crash-seed", type=int, default=None, help="the seed of a crash test to repeat")


@pytest.fixture(scope="session")
def kind(request):
    return request.config.getoption("--broker")


@pytest.fixture(scope="session")
def shared_broker(kind, tmp_path_factory):
    found = KINDS[kind](tmp_path_factory.mktemp("broker")).start()
    yield found
    found.check()
    found.stop()


@pytest.fixture
def broker(shared_broker):
    """The broker that most tests share; every test has to leave it alive."""
    shared_broker.check()
    yield shared_broker
    shared_broker.check()


@pytest.fixture
def own_broker(kind, tmp_path):
    """A broker of the test's own, to be restarted and killed."""
    started = []

    def start(**settings):
        names = {"tidemill": lambda it: it.replace("_", "-"), "kafka": lambda it: it.replace("_", ".")}[kind]
        found = KINDS[kind](tmp_path / f"own{len(started)}", {names(name): value for name, value in settings.items()})
        started.append(found)
        return found.start()

    yield start
    for it in started:
        it.kill()


@pytest.fixture(scope="session")
def shared_agents(shared_broker, tmp_path_factory):
    logs, started = tmp_path_factory.mktemp("agents"), {}

    def agent(client):
        if client not in started or started[client].process.poll() is not None:
            started[client] = agents.Agent(client, shared_broker.address, logs / f"{client}.log")
        return started[client]

    yield agent
    for it in started.values():
        it.close()


@pytest.fixture
def agent(broker, shared_agents):
    """agent(client): the process of that client, shared by all tests."""
    return shared_agents


@pytest.fixture
def own_agent(tmp_path):
    """own_agent(client, broker): a process that only this test uses, so that it can be stopped and killed."""
    started = []

    def start(client, broker):
        found = agents.Agent(client, getattr(broker, "address", broker), tmp_path / f"agent{len(started)}.log")
        started.append(found)
        return found

    yield start
    for it in started:
        it.go_on()
        it.kill()


@pytest.fixture
def open_clients():
    """producer(agent, ...) and consumer(agent, ...), closed after the test."""
    opened = []

    class Open:
        names = itertools.count()

        def producer(self, agent, **options):
            return self._keep(agents.Producer(agent, f"{uuid.uuid4().hex[:8]}", **options))

        def consumer(self, agent, **options):
            return self._keep(agents.Consumer(agent, f"{uuid.uuid4().hex[:8]}", **options))

        def _keep(self, it):
            opened.append(it)
            return it

        def close(self, it):
            opened.remove(it)
            it.close()

        def forget(self, it):
            """It is closed by the test."""
            opened.remove(it)

    yield Open()
    for it in opened:
        if it.agent.process.poll() is None:
            try:
                it.close()
            except agents.Failed:
                # What is left open is fenced or gone; the test has said so.
                pass
            except TimeoutError:
                it.agent.kill()


@pytest.fixture
def name():
    """name(): a name that no test has used."""
    return lambda part="t": f"{part}-{uuid.uuid4().hex[:10]}"


@pytest.fixture
def job(tmp_path):
    made = []

    def make(spec):
        made.append(Job(tmp_path / f"job{len(made)}", spec))
        return made[-1]

    yield make
    for it in made:
        it.kill()


@pytest.fixture
def topic(agent, name, broker):
    """topic(partitions, **config) makes one and gives its name; names of settings have _ for the dot."""
    java = agent("java")

    def make(partitions=1, **config):
        made = name()
        java.ask("create_topic", topic=made, partitions=partitions, config={it.replace("_", "."): str(value) for it, value in config.items()})
        with wire.Connection(broker.address) as connection:
            wait(lambda: wire.all_served(connection, made, partitions), 10, "the topic is served")
        return made

    return make


@pytest.fixture(params=agents.CLIENTS)
def client(request):
    """Every client library in turn."""
    return request.param
