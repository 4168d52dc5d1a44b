create table StringIds(id,value);insert into StringIds values(1,'k<int>()'),(2,'cudaLaunchKernel_v7000');
create table GPU_METRICS(timestamp,typeId,metricId,value);insert into GPU_METRICS values (0,256,1,'aten::mm, seq = 3, sizes = [[2, 2]]'),(1000,256,2,'aten::mm, seq = 3, sizes = [[2, 2]]'),(2000,256,3,'aten::mm, seq = 3, sizes = [[2, 2]]'),(3000,256,4,'aten::mm, seq = 3, sizes = [[2, 2]]');
