"""The texts of the lab in Chinese, keyed by their English text in the scenes. A test fails if one is missing."""

from __future__ import annotations

from typing import Final

CHINESE: Final[dict[str, str]] = {
    # Around the scenes
    "Scene {number}": "场景 {number}",
    "Protection: {protection}": "保护：{protection}",
    "Switched off: {protection}": "已关闭：{protection}",
    "clients": "客户端",
    "on the wire": "网络上",
    "log   ○ open  × aborted": "日志  ○未结束  ×已中止",
    "nothing": "无",
    "Verdict: it holds": "结论：成立",
    "Verdict: it does not hold": "结论：不成立",
    "should be {wanted}": "应为 {wanted}",
    "Without the protection it does not hold: that is what it is for.": "没有这项保护就不成立：这正是它的用途。",
    "Without the protection it held all the same: the scene has shown nothing.": "没有这项保护竟也成立：这个场景什么也没有说明。",
    "Enter: go on": "回车：继续",
    # In the console
    "The lab": "实验室",
    (
        "How exactly-once works: each scene is played on a real broker, with real faults, and ends with a verdict that "
        "is computed. Without its protection the duplicate, the loss or the zombie is seen to happen."
    ): "exactly-once 是怎样做到的：每个场景都在真实的 broker 上、带着真实的故障运行，最后给出计算出来的结论。关闭保护后，可以看到重复、丢失或僵尸真的发生。",
    "Scene": "场景",
    "What it shows": "内容",
    "Its protection": "保护",
    "With it": "有保护",
    "Without it": "无保护",
    "holds": "成立",
    "does not hold": "不成立",
    "stopped": "已停止",
    "is played": "运行中",
    "The same in a terminal": "在终端中运行",
    "Switch it off": "关闭保护",
    "Switch it on": "打开保护",
    "Play it step by step": "逐步运行",
    "Play it to the end": "运行到结束",
    "Next step": "下一步",
    "Stop": "停止",
    "What was counted": "统计项",
    "Found": "实际",
    "Should be": "应为",
    "With the protection": "有保护时",
    "Without the protection": "无保护时",
    "A broker is started …": "正在启动 broker……",
    "It was stopped.": "已停止。",
    "It was stopped: its time is over.": "已停止：时间已到。",
    "It was stopped: it told too much.": "已停止：输出过多。",
    "Its process ended before the verdict.": "它的进程在得出结论之前结束了。",
    (
        "This console starts no processes for its visitors, since it can be reached from other machines (start it with "
        "--allow-changes, or on loopback). The same in a terminal:"
    ): "其他机器可以访问这个控制台，所以它不为访问者启动进程（用 --allow-changes 启动，或只监听 loopback）。在终端中运行：",
    (
        "A scene has a broker and processes of its own on the console's machine, and does not touch the brokers of the "
        "other pages. It ends after {minutes} minutes."
    ): "场景在控制台所在的机器上使用自己的 broker 和进程，不会触及其他页面的 broker。{minutes} 分钟后结束。",
    "Another visitor plays a scene, and this machine plays one at a time. It ends within ten minutes.": "另一位访问者正在运行场景，这台机器一次只运行一个。它会在十分钟内结束。",
    # The scenes
    "A program reads orders 1 to 3, and writes an invoice for each.": "程序读取订单 1 到 3，为每个写一张发票。",
    "The same orders are read again, and this time the program gets to the end.": "重新读取相同的订单，这次程序执行到最后。",
    "Abort: records and offsets come back": "中止：记录作废，offset 退回",
    "What a program writes and how far it has read are one transaction: both count, or neither does.": "程序写出的内容和它读到的位置在同一个事务里：要么都算，要么都不算。",
    "output and offsets in one transaction": "输出与 offset 在同一个事务中",
    "lost records": "丢失的记录",
    "committed offset after the failure": "失败之后已提交的 offset",
    "committed offset at the end": "最后已提交的 offset",
    "It has written its invoices, and sent its offsets within the transaction. Then it fails.": "它写完发票，并在事务中发送了 offset。然后失败。",
    "It has written its invoices. Then it fails, before it has committed its offsets.": "它写完发票。然后在提交 offset 之前失败。",
    (
        "The transaction is aborted: a marker says that its records do not count, its offsets are dropped, and the "
        "consumer is back where it was."
    ): "事务被中止：标记说明这些记录不算数，offset 被丢弃，消费者回到原来的位置。",
    "What it has written stays. The consumer is back where it was.": "已写的留在那里。消费者回到原来的位置。",
    "Record 0 is written.": "记录 0 已写入。",
    "Batches 1 to 5 are on the wire at once.": "批次 1 到 5 同时在途。",
    "Five batches, the second fails: order is kept": "五个批次，第二个失败：顺序不变",
    (
        "With several requests on the wire one that fails is overtaken by those behind it. Sequences let the "
        "broker see the gap."
    ): "多个请求同时在途时，失败的请求会被后面的超过。sequence 让 broker 看到缺口。",
    "sequences without gaps (enable.idempotence)": "没有缺口的 sequence（enable.idempotence）",
    (
        "Batch 2 is refused (NOT_ENOUGH_REPLICAS). Batches 3 to 5 have sequences that leave a gap, so the "
        "broker refuses them, too (OUT_OF_ORDER_SEQUENCE_NUMBER). The producer sends all of them again, from "
        "2 on."
    ): (
        "批次 2 被拒绝（NOT_ENOUGH_REPLICAS）。批次 3 到 5 的 sequence "
        "会留下缺口，broker 也拒绝它们（OUT_OF_ORDER_SEQUENCE_NUMBER）。生"
        "产者从 2 开始全部重发。"
    ),
    ("Batch 2 is refused (NOT_ENOUGH_REPLICAS), batches 3 to 5 are written. Batch 2 is sent again, and comes last."): (
        "批次 2 被拒绝（NOT_ENOUGH_REPLICAS），批次 3 到 5 写入成功。批次 2 重发后排到了最后。"
    ),
    "pairs in the wrong order": "顺序颠倒的记录对",
    "batches refused for a gap": "因缺口被拒绝的批次",
    (
        "Instance a begins a transaction and writes invoice-1. Then it stops: a long pause, or a network that is gone."
    ): "实例 a 开始事务并写入 invoice-1。然后它停住了：长时间暂停，或网络中断。",
    "Instance b does the work again, and commits.": "实例 b 重做这些工作并提交。",
    "Two producers, one id: fencing": "两个生产者，一个 id：fencing",
    (
        "A program that seems dead may only be slow. Its successor has the same transactional id and a higher"
        " epoch; whatever carries the old epoch is refused."
    ): ("看似死掉的程序可能只是慢。接替者有相同的 transactional.id 和更高的 epoch；凡是带着旧 epoch 的都会被拒绝。"),
    "one transactional.id for both instances": "两个实例使用同一个 transactional.id",
    (
        "Instance b is started in its place, under the same transactional id. InitProducerId gives it the "
        "next epoch, and aborts what a has left open."
    ): ("实例 b 以同一个 transactional.id 接替它。InitProducerId 给它下一个 epoch，并中止 a 留下的事务。"),
    "Instance b is started in its place, under an id of its own. To the broker it is another producer.": "实例 b 以自己的 id 接替它。对 broker 来说，这是另一个生产者。",
    (
        "Instance a wakes up and goes on under its old epoch: it is refused. It is a zombie, and can do no harm."
    ): "实例 a 醒来，用旧的 epoch 继续：被拒绝。它是僵尸（zombie），但已无法造成危害。",
    "Instance a wakes up, writes the rest and commits. Both commits succeed.": "实例 a 醒来，写完剩下的并提交。两个实例都被接受了。",
    "commits of the zombie that were refused": "被拒绝的僵尸提交",
    "A transaction with a and b is committed. Both readers see it.": "包含 a 和 b 的事务已提交。两个消费者都看到了。",
    (
        "A transaction with x is aborted. Its record stays in the log; the answer to a read_committed Fetch "
        "names it as aborted, and the consumer leaves it out."
    ): ("包含 x 的事务被中止。记录仍在日志里；对 read_committed Fetch 的应答会指明它已中止，消费者把它跳过。"),
    "A transaction with y is open. read_committed stops before it; read_uncommitted does not.": (
        "包含 y 的事务尚未结束。read_committed 停在它前面；read_uncommitted 不会。"
    ),
    "read_committed beside read_uncommitted": "read_committed 与 read_uncommitted 并列",
    (
        "Both levels read the same log with the same requests. What differs is how far they may read, and "
        "what they leave out."
    ): "两种级别用同样的请求读同一份日志。区别在于能读到哪里，以及跳过什么。",
    "isolation.level=read_committed": "isolation.level=read_committed",
    "isolation level": "隔离级别",
    "records seen that were not committed": "看到的未提交记录",
    "A producer, a broker, an empty log.": "一个生产者、一个 broker 和一份空日志。",
    "Record a is written and acknowledged.": "记录 a 已写入并得到确认。",
    (
        "Record b is written, but the answer is lost with the connection. The producer cannot know which of "
        "the two it was: request or answer."
    ): "记录 b 已写入，但应答随连接一起丢失。生产者无法知道丢失的是请求还是应答。",
    "Record c follows.": "接着是记录 c。",
    "A lost answer": "丢失的应答",
    (
        "A producer that gets no answer must send again, or records may be lost. Watch the sequence on the "
        "wire and the offset in the second answer."
    ): ("得不到应答的生产者必须重发，否则可能丢失记录。请留意请求中的 sequence 和第二次应答中的 offset。"),
    "idempotence (enable.idempotence)": "幂等（enable.idempotence）",
    (
        "It sends the batch again, with the same sequence. The broker finds it among the last five of this "
        "producer, writes nothing, and answers with the offset of the first time."
    ): (
        "它用相同的 sequence 重发该批次。broker 在这个生产者最近的五个批次中找到了它，不再写入，并返回第一次的 offset。"
    ),
    (
        "It sends the batch again. Without numbers the broker takes it for a new one, and writes it a second time."
    ): "它重发该批次。没有编号，broker 把它当作新的批次，又写了一次。",
    (
        "Broker {coordinator}, a process of its own, coordinates the transactions of this producer, broker "
        "{leader} has the partition. The decisions of the coordinator are in a log with {copies} replicas."
    ): (
        "broker {coordinator} 是一个单独的进程，它协调这个生产者的事务，broker {leader} 持有"
        "分区。协调者的决定保存在有 {copies} 个副本的日志里。"
    ),
    (
        "The transaction is committed: PREPARE_COMMIT is in the log of the coordinator, and the producer has "
        "its answer. The marker is on its way, and the network holds it. Readers see nothing yet."
    ): (
        "事务已提交：PREPARE_COMMIT 在协调者的日志里，生产者已得到应答。标记还在路上，被网络扣"
        "住。消费者还什么都看不到。"
    ),
    "The coordinator dies between PREPARE and the markers": "协调者死在 PREPARE 与标记之间",
    (
        "A commit is final once PREPARE_COMMIT is in the coordinator's log; the markers follow. Who finishes "
        "the work when the coordinator dies in between?"
    ): ("PREPARE_COMMIT 一旦写进协调者的日志，提交就是最终的；标记随后写入。如果协调者死在两者之间，谁来完成？"),
    "replicas of __transaction_state": "__transaction_state 的副本",
    (
        "The process of broker {coordinator} is killed with SIGKILL. Broker {successor} has a replica of the "
        "log, finds PREPARE_COMMIT without COMPLETE, and writes the markers."
    ): (
        "broker {coordinator} 的进程被 SIGKILL 杀死。broker {successor} 有日志的副本"
        "，发现 PREPARE_COMMIT 之后没有 COMPLETE，于是写入标记。"
    ),
    (
        "The process of broker {coordinator} is killed with SIGKILL, and with it the only copy of the "
        "decision. The producer was told that its transaction is committed; no broker that is left knows of it."
    ): (
        "broker {coordinator} 的进程被 SIGKILL 杀死，决定的唯一副本也随之消失。生产者被告知事务已提交；剩下的 broker 都不知道。"
    ),
    "replicas of the decision": "决定的副本数",
    (
        "A transaction is open on the partition: its first record is at offset 0, and so is the last stable "
        "offset (LSO)."
    ): ("分区上有一个未结束的事务：它的第一条记录在 offset 0，last stable offset（LSO）也在那里。"),
    "Another producer writes b and c. A reader with {isolation} sees {seen}.": (
        "另一个生产者写入 b 和 c。isolation.level={isolation} 的消费者看到：{seen}。"
    ),
    "The transaction is aborted: a marker is written, the LSO moves to the end, and readers go on.": "事务被中止：写入一个标记（marker），LSO 移到末尾，消费者继续读取。",
    "An open transaction holds the last stable offset": "未结束的事务挡住 last stable offset",
    (
        "read_committed readers go no further than the first open transaction, also where the records behind "
        "it belong to others. That is the price of never reading what may be taken back."
    ): ("read_committed 消费者不会越过第一个未结束的事务，不管后面的记录是谁写的。这是从不读到会被撤回的记录的代价。"),
    "records read before they were decided": "在决定之前就被读到的记录",
    "records read that were then aborted": "被读到、随后却被中止的记录",
    "records held up while it was open": "事务未结束时被挡住的记录",
    "records that read_committed sees at the end": "最后 read_committed 看到的记录",
    ("A producer opens a transaction, with transaction.timeout.ms={limit_ms}, and hangs. Others write behind it."): (
        "一个生产者打开事务（transaction.timeout.ms={limit_ms}）后挂起。其他生产者在它后面写入。"
    ),
    "A timeout ends what hangs": "超时结束挂起的事务",
    (
        "A producer that hangs or has died cannot hold readers up for ever: after transaction.timeout.ms its "
        "coordinator aborts for it."
    ): ("挂起或死掉的生产者不能永远挡住消费者：过了 transaction.timeout.ms，协调者替它中止。"),
    "a short transaction.timeout.ms": "较短的 transaction.timeout.ms",
    (
        "{seconds} seconds pass on the broker. The coordinator aborts the transaction by itself, under the "
        "next epoch, and the last stable offset moves."
    ): ("broker 上过去了 {seconds} 秒。协调者（coordinator）自行以下一个 epoch 中止事务，last stable offset 前移。"),
    (
        "{seconds} seconds pass on the broker. The transaction may stay open for a quarter of an hour: readers wait."
    ): "broker 上过去了 {seconds} 秒。这个事务可以开一刻钟：消费者只能等待。",
    "The producer wakes up and commits: it is refused. What was aborted stays aborted.": "生产者醒来并提交：被拒绝。已中止的仍然是中止的。",
    "records still held up after a minute": "一分钟后仍被挡住的记录",
    "The producer wakes up and commits, and only now readers can go on.": "生产者醒来并提交，消费者直到这时才能继续。",
    "late commits that were refused": "被拒绝的迟到提交",
    "records of the hanging transaction that readers see": "消费者看到的挂起事务的记录",
    "Record a is written: the broker knows the producer now.": "记录 a 已写入：broker 现在认识这个生产者了。",
    (
        "Six batches b to g are sent, each in a request of its own, and the network holds them. {on_wire} are"
        " on the wire, {waiting} waits."
    ): ("发送 b 到 g 六个批次，每个一个请求，网络把它们扣住。{on_wire} 个在途，{waiting} 个等待。"),
    "The window of five, and the sixth": "五个批次的窗口，以及第六个",
    (
        "A broker remembers the last five batches of each producer, and a producer has at most five on the "
        "wire. So all that can come again is recognised. The sixth waits."
    ): ("broker 记住每个生产者最近的五个批次，生产者最多有五个在途。因此凡是可能重来的都能识别。第六个要等待。"),
    "sequences, and five in flight at most": "sequence，以及最多五个在途请求",
    (
        "They reach the broker, which writes all five. Then the connection breaks, and only the first answer "
        "arrives. The others are sent again: the broker remembers five batches of a producer, so it "
        "recognises each of them. The sixth goes out behind them."
    ): (
        "它们到达 broker，五个全部写入。随后连接断开，只有第一个应答到达。其余批次重发：broker "
        "记住每个生产者的五个批次，因此每一个都能识别。第六个批次随后发出。"
    ),
    (
        "They reach the broker, which writes all six. Then the connection breaks, and only the first answer "
        "arrives. The others are sent again, and are written again."
    ): "它们到达 broker，六个全部写入。随后连接断开，只有第一个应答到达。其余批次重发，又被写了一遍。",
    "batches on the wire at once": "同时在途的批次",
    "batches sent again": "重发的批次",
    "records sent": "发送的记录",
    "records in the log": "日志中的记录",
    "records that readers see": "消费者看到的记录",
    "duplicates": "重复的记录",
    # 9
    "A rebalance in its phases, and four assignors": "再均衡的各个阶段，以及四种分配策略",
    (
        "When a member joins, all join again under the next generation, the leader among them assigns the partitions, "
        "and each receives its share. Eager assignors take everything away first; a cooperative one takes only what "
        "moves."
    ): "有成员加入时，所有成员在下一个 generation 重新加入，其中的 leader 分配分区，每个成员得到自己的一份。eager 策略先全部收回；cooperative 策略只收回要移动的。",
    "cooperative rebalancing (cooperative-sticky)": "协作式再均衡（cooperative-sticky）",
    (
        "{assignor}: a third member joins. All join again (JoinGroup), the leader assigns the partitions (SyncGroup). "
        "Generations: {rounds}. Partitions taken away and given back: {interrupted}. Partitions that change hands: "
        "{moved}."
    ): "{assignor}：第三个成员加入。所有成员重新加入（JoinGroup），leader 分配分区（SyncGroup），经过 {rounds} 个 generation。{interrupted} 个分区被收回又还回，{moved} 个换了主人。",
    "assignor": "分配策略",
    "partitions interrupted although they stay where they are": "没有移动却被中断的分区",
    "partitions that changed hands": "换了主人的分区",
    "range: interrupted / moved": "range：中断 / 移动",
    "roundrobin: interrupted / moved": "roundrobin：中断 / 移动",
    "sticky: interrupted / moved": "sticky：中断 / 移动",
    "cooperative-sticky: interrupted / moved": "cooperative-sticky：中断 / 移动",
    # 11
    "A Spark micro-batch, killed at each step": "Spark 微批次，在每一步被杀死",
    (
        "A pipeline writes the output of a micro-batch and the offsets that it has read in one transaction, with a "
        "note which batch it was. Whenever the driver dies, the next one can tell whether the batch has to run again."
    ): "pipeline 把微批次的输出和读到的 offset 写在同一个事务里，并注明是哪个批次。无论 driver 何时死掉，下一个都能判断该批次是否要重跑。",
    "output, offsets and note in one transaction": "输出、offset 和注记在同一个事务中",
    (
        "The driver is killed when batch {number} is {step}. The next driver asks where the group is: the batch is not "
        "committed, and runs again."
    ): "driver 在批次 {number} 处于 {step} 时被杀死。下一个 driver 查询 group 的位置：该批次没有提交，重新运行。",
    (
        "The driver is killed when batch {number} is {step}. The next driver asks where the group is: the batch is "
        "committed, and is skipped."
    ): "driver 在批次 {number} 处于 {step} 时被杀死。下一个 driver 查询 group 的位置：该批次已经提交，跳过。",
    "planned": "已计划",
    "written": "已写入",
    "written, and its offsets are sent": "已写入并发送了 offset",
    "committed": "已提交",
    "kills": "杀死次数",
    "batches run again": "重新运行的批次",
    "batches skipped, because they were committed": "因已提交而跳过的批次",
    # 12
    "A zombie coordinator": "僵尸协调者",
    (
        "A coordinator that was replaced may still have messages on the wire. Partitions remember the epochs of the "
        "last marker, of its producer and of its coordinator, and refuse what is older."
    ): "被替换的协调者可能还有消息在路上。分区记住最后一个标记的 epoch，包括生产者的和协调者的，并拒绝更旧的。",
    "the check of epochs in markers": "对标记中 epoch 的检查",
    (
        "A transaction with a is committed. Its coordinator, broker {first}, sends the marker, and the network holds "
        "it."
    ): "包含 a 的事务已提交。它的协调者 broker {first} 发出标记，被网络扣住。",
    (
        "Broker {first} is silent for too long, and another broker takes over under the next coordinator epoch. It "
        "finds the decision in its replica of the log, and writes the marker."
    ): "broker {first} 沉默太久，另一个 broker 以下一个 coordinator epoch 接管。它在自己的日志副本里找到决定，写入标记。",
    "The producer begins its next transaction, and writes b.": "生产者开始下一个事务，写入 b。",
    "Now the marker of broker {first} arrives. It belongs to an epoch that is over, and is refused ({error}).": "这时 broker {first} 的标记到达。它属于已经结束的 epoch，被拒绝（{error}）。",
    (
        "Now the marker of broker {first} arrives, and is taken: it ends the transaction that is open now. Readers "
        "see b, which was never committed."
    ): "这时 broker {first} 的标记到达并被接受：它结束了现在开着的事务。消费者看到了从未提交的 b。",
    "markers of the zombie that were refused": "被拒绝的僵尸标记",
}
